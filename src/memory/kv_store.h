// The memory behind KV pages: a page's layers lie side by side; who owns which page is the engine's
// business (page_pool.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "os/memory.h"

namespace penstock {

enum class PageId : uint32_t {};

// How keys and values are stored: each class of arithmetic reads its own (kernels/attention/).
enum class KvFormat : uint8_t { kF32, kBF16 };
constexpr size_t number_bytes(KvFormat format) {
  return format == KvFormat::kF32 ? sizeof(float) : sizeof(uint16_t);
}

struct KvShape {
  int n_layers = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  KvFormat format = KvFormat::kF32;

  int64_t page_numbers() const;  // of keys (or of values) of one layer's page
  size_t page_bytes() const;     // of keys and values of all layers
};

// Thread-compatible. Pages are not cleared: a page's content is what was last written.
class KvStore {
 public:
  // Reserves address space for n_pages; memory is committed as pages are first written, or ahead.
  static Result<KvStore> make(KvShape shape, int64_t n_pages);
  const KvShape& shape() const { return shape_; }
  int64_t n_pages() const { return n_pages_; }
  // T: float for kF32, uint16_t for kBF16. [n_kv_heads, kPageTokens, head_dim] numbers, in the
  // order that the format's kernel wants.
  template <class T>
  T* keys(int layer, PageId page) const {
    PENSTOCK_CHECK(sizeof(T) == number_bytes(shape_.format), "KV pages of another format");
    return reinterpret_cast<T*>(layer_page(layer, page));
  }
  template <class T>
  T* values(int layer, PageId page) const {
    return keys<T>(layer, page) + shape_.page_numbers();
  }
  // All that a page holds, in every layer: the same bytes in another page mean the same.
  std::span<std::byte> page(PageId page) const {
    return {layer_page(0, page), shape_.page_bytes()};
  }
  void copy_page(PageId from, PageId to) const;  // in every layer
  // Commits memory of the first n_pages pages, a huge OS page's worth; whether some is left. What
  // is written for the first time waits for the kernel otherwise: 6 ms for a huge page where the
  // host of a virtual machine has to find it too.
  bool commit_some(int64_t n_pages);

 private:
  std::byte* layer_page(int layer, PageId page) const;
  KvStore(const KvShape& shape, int64_t n_pages, AnonymousMemory memory)
      : shape_(shape), n_pages_(n_pages), memory_(std::move(memory)) {}

  KvShape shape_;
  int64_t n_pages_ = 0;
  size_t n_committed_ = 0;  // bytes
  // [n_pages][n_layers][keys, values][page_numbers]. Pages outermost: memory is committed a
  // little with each new page, where layers outermost would fault in as many huge pages as there
  // are layers, all in one step (180 ms with SmolLM2-135M on 2 cores of a Sapphire Rapids machine).
  AnonymousMemory memory_;
};

}  // namespace penstock
