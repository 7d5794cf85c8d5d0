#include "cpu/isa.h"
#include "os/amx.h"

// A file of its own: the tests of AMX's kernels bring another (tests/software_tiles).

namespace penstock {

std::vector<Isa> supported_isas() {
  static const std::vector<Isa> isas = [] {
    std::vector<Isa> all = isas_of(read_cpuid());
    if (all.back() == Isa::kAmx && !allow_amx()) all.pop_back();
    return all;
  }();
  return isas;
}

}  // namespace penstock
