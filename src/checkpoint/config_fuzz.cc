// Any bytes, as config.json, give a valid spec that survives JSON, or an error.
#include <string_view>

#include "base/check.h"
#include "checkpoint/hf_config.h"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = parse_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json) return 0;
  const auto config = parse_hf_config(*json);
  if (!config) return 0;
  const auto again = parse_json(to_json(config->spec).dump());
  PENSTOCK_CHECK(again.has_value(), "a spec that is no JSON");
  const auto spec = spec_from_json(*again);
  PENSTOCK_CHECK(spec && *spec == config->spec, "a spec that JSON changed");
  return 0;
}
