#include "os/amx.h"

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock {

// Linux's Documentation/arch/x86/xstate.rst.
bool allow_amx() {
  constexpr long kTileData = 18;  // its bit in XCR0
#ifdef ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
#else
  constexpr long kRequestPermission = 0x1023;  // headers older than Linux 5.16 lack the name
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#endif
}

}  // namespace penstock
