#include "kernels/lanes_avx512.h"

namespace penstock {
namespace {
inline constexpr int kTileWidth = 4;  // 4 rows of it: 16 of the 32 registers
}
}  // namespace penstock

#include "kernels/attention/attention_lanes.h"

namespace penstock {

void attend_block_avx512(const AttentionTask& block) { attend_block(block); }

}  // namespace penstock
