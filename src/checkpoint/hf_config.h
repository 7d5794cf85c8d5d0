// config.json of a Hugging Face folder as a ModelSpec. Fields, spellings and defaults:
// docs/models.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/hf_fields.h"
#include "checkpoint/model_spec.h"

namespace penstock {

// What quantization_config says that the tensors themselves do not.
struct HfQuantization {
  std::string method = {};  // "gptq", ...; empty: none
  int64_t bits = 4;
  int64_t group_size = 128;     // -1: the whole row
  bool act_order = false;       // GPTQ: columns are in any order (desc_act)
  bool zeros_minus_one = true;  // GPTQ: the first version of its files
  uint32_t block_rows = 128;    // FP8
  uint32_t block_cols = 128;
};

struct HfConfig {
  ModelSpec spec = {};
  HfQuantization quantization = {};
  std::vector<int64_t> eos_ids = {};
  std::vector<int64_t> bos_ids = {};
};

// An architecture, rope type, activation or quantization method not known here is kUnsupported,
// with those that are.
Result<HfConfig> parse_hf_config(const Json& config);

// The parts of it, each in its own file.
Result<RopeSpec> hf_rope(const HfFields& config, const ModelSpec& spec, double default_theta,
                         double default_partial_rotary_factor);
Result<HfQuantization> hf_quantization(const HfFields& config);

}  // namespace penstock
