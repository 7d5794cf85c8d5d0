#include "kernels/lanes_avx2.h"

namespace penstock {
namespace {
inline constexpr int kTileWidth = 1;  // 4 rows of it: 8 of the 16 registers
}
}  // namespace penstock

#include "kernels/attention/attention_lanes.h"

namespace penstock {

void attend_block_avx2(const AttentionTask& block) { attend_block(block); }

}  // namespace penstock
