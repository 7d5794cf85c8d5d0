// The memory behind KV pages: a page's layers lie side by side; who owns which page is the engine's
// business (page_pool.h).
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "os/memory.h"

namespace penstock {

enum class PageId : uint32_t {};

struct KvShape {
  int n_layers = 0;
  int n_kv_heads = 0;
  int head_dim = 0;

  int64_t page_floats() const;  // of keys (or of values) of one layer's page
  size_t page_bytes() const;    // of keys and values of all layers
};

// Thread-compatible. Pages are not cleared: a page's content is what was last written.
class KvStore {
 public:
  // Reserves address space for n_pages; memory is committed as pages are first written.
  static Result<KvStore> make(KvShape shape, int64_t n_pages);
  const KvShape& shape() const { return shape_; }
  int64_t n_pages() const { return n_pages_; }
  float* keys(int layer, PageId page) const;     // [n_kv_heads, kPageTokens, head_dim]
  float* values(int layer, PageId page) const;   // [n_kv_heads, kPageTokens, head_dim]
  void copy_page(PageId from, PageId to) const;  // in every layer

 private:
  KvStore(const KvShape& shape, int64_t n_pages, AnonymousMemory memory)
      : shape_(shape), n_pages_(n_pages), memory_(std::move(memory)) {}

  KvShape shape_;
  int64_t n_pages_ = 0;
  // [n_pages][n_layers][keys, values][page_floats] f32. Pages outermost: memory is committed a
  // little with each new page, where layers outermost would fault in as many huge pages as there
  // are layers, all in one step (180 ms with SmolLM2-135M on 2 cores of a Sapphire Rapids machine).
  AnonymousMemory memory_;
};

}  // namespace penstock
