// A JSON file below tests/golden, for the kernels' tests.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"

namespace penstock {

inline Json golden_json(const std::string& name) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR "/tests/golden/") + name);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_json(text).value();
}

}  // namespace penstock
