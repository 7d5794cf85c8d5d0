// Any bytes give a header whose tensors lie inside the file, or an error; as an index, names of
// files of one folder, or an error.
#include <span>
#include <string_view>

#include "base/check.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_folder.h"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (const auto header = parse_safetensors_header(std::as_bytes(std::span(data, size)), size)) {
    uint64_t total = 0;
    for (const auto& [name, tensor] : *header) {
      PENSTOCK_CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset,
                     "a tensor past the end of its file");
      total += tensor.bytes;
    }
    PENSTOCK_CHECK(total < size, "tensors that share bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = parse_safetensors_index(text)) {
    for (const auto& [tensor, file] : *index) {
      PENSTOCK_CHECK(!file.empty() && file != ".." && file.find('/') == std::string::npos,
                     "an index that leads out of its folder");
    }
  }
  return 0;
}
