// Tensors a file holds and the model does not use: one note for each kind, not for each tensor.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

class UnusedTensors {
 public:
  // `kind` in words: "of the vision tower".
  void add(std::string_view kind, std::string_view tensor);

  // "2 tensors of the vision tower are not used: visual.a, ..."
  std::vector<std::string> notes() const;

 private:
  struct Kind {
    size_t n_tensors = 0;
    std::string example = {};
  };
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace penstock
