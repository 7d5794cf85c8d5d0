// Any bytes give a model whose tensors lie inside the file, or an error.
#include <span>

#include "base/check.h"
#include "checkpoint/gguf_checkpoint.h"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const GgufFile file = {"fuzz.gguf", std::as_bytes(std::span(data, size))};
  const auto checkpoint = gguf_checkpoint(std::span(&file, 1));
  if (!checkpoint) return 0;
  for (const auto& [name, tensor] : checkpoint->tensors) {
    PENSTOCK_CHECK(tensor.data.offset <= size && tensor.data.bytes <= size - tensor.data.offset,
                   "a tensor past the end of its file");
    PENSTOCK_CHECK(data_bytes(tensor.format, tensor.rows, tensor.cols) == tensor.data.bytes,
                   "a tensor of another size than its shape");
  }
  PENSTOCK_CHECK(validate(checkpoint->spec).has_value(), "a spec that contradicts itself");
  return 0;
}
