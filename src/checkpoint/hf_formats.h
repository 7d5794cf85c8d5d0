// Which format a weight of a Hugging Face checkpoint is stored in, told by the tensors that are
// there: the table of docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/needed_tensors.h"
#include "checkpoint/safetensors_folder.h"

namespace penstock {

// Reads weights and remembers which of the folder's tensors they took. The folder and the
// quantization outlive it. A tensor that a format needs and that is missing, or has another type or
// shape, is an error that names the tensor and the format.
class HfFormatReader {
 public:
  HfFormatReader(const SafetensorsFolder& folder, const HfQuantization& quantization)
      : folder_(folder), quantization_(quantization) {}

  // A matrix, in whatever format; `module` is its name without ".weight".
  Result<StoredTensor> matrix(const std::string& module, const NeededTensor& needed);
  // A vector, or any tensor that formats for weights do not apply to, under its full name.
  Result<StoredTensor> plain(const std::string& name, const NeededTensor& needed);

  bool is_used(std::string_view name) const { return used_.contains(name); }

 private:
  using Shape = std::vector<uint64_t>;
  using Dtypes = std::initializer_list<std::string_view>;

  bool has(const std::string& name) const { return folder_.find(name) != nullptr; }
  Result<const PlacedTensor*> take(const std::string& name, std::string_view format);
  Result<const PlacedTensor*> take(const std::string& name, std::string_view format, Dtypes dtypes,
                                   const Shape& shape);
  Result<float> take_scalar(const std::string& name, std::string_view format);

  Result<StoredTensor> nvfp4(const std::string& module, const NeededTensor& needed);
  Result<StoredTensor> packed(const std::string& module, const NeededTensor& needed);
  Result<StoredTensor> fp8(const std::string& module, const NeededTensor& needed);
  Result<void> fp8_scales(const std::string& name, StoredTensor& stored);
  Result<StoredTensor> int4(const std::string& module, const NeededTensor& needed);
  Result<void> check_order(const std::string& name, const PlacedTensor& groups,
                           uint64_t n_groups) const;

  const SafetensorsFolder& folder_;
  const HfQuantization& quantization_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace penstock
