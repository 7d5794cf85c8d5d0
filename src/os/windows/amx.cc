#include "os/amx.h"

#include <windows.h>

namespace penstock {

// Windows 11 and Server 2022 grant AMX to processes that enable it
// (EnableProcessOptionalXStateFeatures); Windows 10, Wine and older ones have no such function, and
// do not save the registers.
bool allow_amx() {
  constexpr DWORD64 kTileData = DWORD64{1} << 18;  // its bit in XCR0
  const HMODULE kernel = ::GetModuleHandleW(L"kernel32.dll");
  if (kernel == nullptr) return false;
  using Enable = BOOL WINAPI(DWORD64);
  auto* const enable = reinterpret_cast<Enable*>(
      reinterpret_cast<void*>(::GetProcAddress(kernel, "EnableProcessOptionalXStateFeatures")));
  return enable != nullptr && enable(kTileData) != FALSE;
}

}  // namespace penstock
