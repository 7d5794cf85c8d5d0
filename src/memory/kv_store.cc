#include "memory/kv_store.h"

#include <cstring>

#include "base/check.h"
#include "base/units.h"
#include "kernels/attention/attention.h"

namespace penstock {

int64_t KvShape::page_floats() const { return int64_t{n_kv_heads} * kPageTokens * head_dim; }

size_t KvShape::page_bytes() const {
  return static_cast<size_t>(n_layers) * 2 * static_cast<size_t>(page_floats()) * sizeof(float);
}

Result<KvStore> KvStore::make(KvShape shape, int64_t n_pages) {
  if (n_pages <= 0)
    return fail(ErrorKind::kInvalidArgument, "a KV store of {} pages was asked for", n_pages);
  size_t bytes = 0;
  if (__builtin_mul_overflow(shape.page_bytes(), static_cast<size_t>(n_pages), &bytes)) {
    return fail(ErrorKind::kInvalidArgument, "{} KV pages of {} are more than can be addressed",
                n_pages, format_bytes(shape.page_bytes()));
  }
  auto memory = AnonymousMemory::reserve(bytes, OsPages::kHuge);
  if (!memory)
    return std::unexpected(memory.error().in(fmt::format("KV cache of {} pages", n_pages)));
  return KvStore(shape, n_pages, *std::move(memory));
}

float* KvStore::keys(int layer, PageId page) const {
  const auto index = static_cast<int64_t>(page);
  PENSTOCK_CHECK(layer < shape_.n_layers && index < n_pages_, "KV page out of range");
  auto* const floats = reinterpret_cast<float*>(memory_.bytes().data());
  return floats + (index * shape_.n_layers + layer) * 2 * shape_.page_floats();
}

float* KvStore::values(int layer, PageId page) const {
  return keys(layer, page) + shape_.page_floats();
}

void KvStore::copy_page(PageId from, PageId to) const {
  std::memcpy(keys(0, to), keys(0, from), shape_.page_bytes());
}

}  // namespace penstock
