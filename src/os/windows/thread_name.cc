#include "os/thread_name.h"

#include <windows.h>

namespace penstock {

// Since Windows 10 1607, and not in mingw-w64's import libraries: where it is not, threads have no
// names.
void name_this_thread(const std::string& name) {
  using SetDescription = HRESULT WINAPI(HANDLE, PCWSTR);
  auto* const set = reinterpret_cast<SetDescription*>(reinterpret_cast<void*>(
      ::GetProcAddress(::GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription")));
  if (set == nullptr) return;
  const std::string cut = name.substr(0, 15);
  set(::GetCurrentThread(), std::wstring(cut.begin(), cut.end()).c_str());
}

}  // namespace penstock
