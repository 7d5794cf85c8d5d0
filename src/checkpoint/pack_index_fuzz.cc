// Any text gives an error or an index whose regions lie in its files and tensors in their regions,
// and that is the same after it was written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "checkpoint/pack_index.h"

using namespace penstock;

namespace {

bool is_inside(const Extent& inner, const Extent& outer) {
  return inner.bytes == 0 || (inner.file == outer.file && inner.offset >= outer.offset &&
                              inner.offset + inner.bytes <= outer.offset + outer.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index = parse_pack_index({reinterpret_cast<const char*>(data), size});
  if (!index) return 0;
  for (const PackRegion& region : index->regions) {
    const Extent& extent = region.extent;
    PENSTOCK_CHECK(extent.file < index->files.size(), "a file that is not listed");
    PENSTOCK_CHECK(extent.offset + extent.bytes <= index->files[extent.file].bytes, "past the end");
    for (const PackTensor& tensor : region.tensors) {
      const StoredTensor& stored = tensor.stored;
      for (const Extent& run : {stored.data, stored.scales, stored.zeros, stored.groups}) {
        PENSTOCK_CHECK(is_inside(run, extent), "outside the region");
      }
      PENSTOCK_CHECK(stored.data.bytes > 0, "a tensor without bytes");
    }
  }
  const auto again = parse_pack_index(to_text(*index));
  PENSTOCK_CHECK(again && *again == *index, "not the same after writing");
  return 0;
}
