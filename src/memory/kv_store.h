// The memory behind KV pages: one block of floats per layer; who owns which page is the engine's
// business (page_pool.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

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
  KvStore(KvStore&&) noexcept;
  KvStore& operator=(KvStore&&) noexcept;
  ~KvStore();

  const KvShape& shape() const { return shape_; }
  int64_t n_pages() const { return n_pages_; }
  float* keys(int layer, PageId page);    // [n_kv_heads, kPageTokens, head_dim]
  float* values(int layer, PageId page);  // [n_kv_heads, kPageTokens, head_dim]

 private:
  KvStore(KvShape shape, int64_t n_pages, float* base, size_t bytes);

  KvShape shape_;
  int64_t n_pages_ = 0;
  float* base_ = nullptr;  // [n_layers][n_pages][keys, values][page_floats]
  size_t bytes_ = 0;
};

}  // namespace penstock
