#include "kernels/matmul/matmul_exact_kernels.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

template <class Decode>
constexpr ScaleTable every_code(Decode decode) {
  ScaleTable table{};
  for (unsigned code = 0; code < 256; ++code) table.of[code] = decode(static_cast<uint8_t>(code));
  return table;
}

}  // namespace

constinit const ScaleTable kE4m3Scales = every_code(e4m3_to_f32);
constinit const ScaleTable kUe4m3Scales = every_code(ue4m3_to_f32);
constinit const ScaleTable kE8m0Scales = every_code(e8m0_to_f32);

}  // namespace penstock
