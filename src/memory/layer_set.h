// Some of a model's layers, as people choose them on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

class LayerSet {
 public:
  explicit LayerSet(int n_layers) : chosen_(static_cast<size_t>(n_layers)) {}

  int n_layers() const { return static_cast<int>(chosen_.size()); }
  int count() const;
  bool contains(int layer) const { return chosen_.at(static_cast<size_t>(layer)); }
  void add(int layer) { chosen_.at(static_cast<size_t>(layer)) = true; }
  void add(int begin, int end);  // [begin, end)
  std::string text() const;      // "0-5,7", as select_layers() reads it; "0" for none

  bool operator==(const LayerSet&) const = default;

 private:
  std::vector<bool> chosen_;
};

struct LayerSelection {
  LayerSet layers;
  std::string warning = {};  // what of the selection is not there; or empty
};

// The layers that `text`, the value of `flag`, chooses of a model's `n_layers`:
//
//   8              a number alone: so many layers, spread evenly
//   0.25           a number with a point: that part of the layers, spread evenly
//   3,7,11         layers by id, from 0; a comma makes an id of a number, so "7," is layer 7
//   0-5            from layer 0 to layer 5, both counted
//   head:4,tail:4  the first and the last four
//
// The last three mix, with commas between. What lies behind the last layer is left out with a
// warning.
Result<LayerSelection> select_layers(std::string_view text, int n_layers, std::string_view flag);

// An error that names both flags where both chose a layer that only one can have.
Result<void> check_disjoint(const LayerSet& layers, std::string_view flag, const LayerSet& others,
                            std::string_view other_flag);

}  // namespace penstock
