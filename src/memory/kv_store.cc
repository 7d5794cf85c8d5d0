#include "memory/kv_store.h"

#include <algorithm>
#include <cstring>

#include "base/units.h"
#include "kernels/attention/attention.h"

namespace penstock {

int64_t KvShape::page_numbers() const { return int64_t{n_kv_heads} * kPageTokens * head_dim; }

size_t KvShape::page_bytes() const {
  return static_cast<size_t>(n_layers) * 2 * static_cast<size_t>(page_numbers()) *
         number_bytes(format);
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

std::byte* KvStore::layer_page(int layer, PageId page) const {
  const auto index = static_cast<size_t>(page);
  PENSTOCK_CHECK(layer < shape_.n_layers && index < static_cast<size_t>(n_pages_),
                 "KV page out of range");
  const size_t layer_bytes = shape_.page_bytes() / static_cast<size_t>(shape_.n_layers);
  return memory_.bytes().data() + index * shape_.page_bytes() +
         static_cast<size_t>(layer) * layer_bytes;
}

void KvStore::copy_page(PageId from, PageId to) const {
  std::memcpy(layer_page(0, to), layer_page(0, from), shape_.page_bytes());
}

bool KvStore::commit_some(int64_t n_pages) {
  constexpr size_t kBytes = AnonymousMemory::kAlignment;  // a huge page
  const size_t wanted = static_cast<size_t>(std::min(n_pages, n_pages_)) * shape_.page_bytes();
  if (n_committed_ >= wanted) return false;
  memory_.commit(n_committed_, kBytes);
  n_committed_ += kBytes;
  return n_committed_ < wanted;
}

}  // namespace penstock
