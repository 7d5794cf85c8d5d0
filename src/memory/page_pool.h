// KV pages and recurrent states by id: who holds which.
#pragma once

#include <cstdint>

#include "memory/kv_store.h"
#include "memory/ref_pool.h"

namespace penstock {

using PageRef = Ref<PageId>;
using PagePool = RefPool<PageId>;

// What a recurrent block keeps of all earlier tokens: one fixed-size slot per sequence.
enum class StateId : uint32_t {};
using StateRef = Ref<StateId>;
using StatePool = RefPool<StateId>;

}  // namespace penstock
