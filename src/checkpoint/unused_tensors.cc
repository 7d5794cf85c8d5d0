#include "checkpoint/unused_tensors.h"

#include <fmt/format.h>

namespace penstock {

void UnusedTensors::add(std::string_view kind, std::string_view tensor) {
  const auto [at, is_new] = kinds_.try_emplace(std::string(kind));
  if (is_new) at->second.example = tensor;
  ++at->second.n_tensors;
}

std::vector<std::string> UnusedTensors::notes() const {
  std::vector<std::string> notes;
  for (const auto& [kind, found] : kinds_) {
    notes.push_back(found.n_tensors == 1
                        ? fmt::format("1 tensor {} is not used: {}", kind, found.example)
                        : fmt::format("{} tensors {} are not used: {}, ...", found.n_tensors, kind,
                                      found.example));
  }
  return notes;
}

}  // namespace penstock
