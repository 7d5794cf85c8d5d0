#include "os/shared_library.h"

#include <windows.h>

#include "os/windows/last_error.h"

namespace penstock {

// From the system's folder and the program's own, not from wherever the program was started.
Result<SharedLibrary> SharedLibrary::open(const std::string& name) {
  const HMODULE handle = ::LoadLibraryExW(std::filesystem::path(name).c_str(), nullptr,
                                          LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  if (handle != nullptr) return SharedLibrary(static_cast<void*>(handle));
  Error error = last_error("load", name).error();
  error.kind = ErrorKind::kNotFound;
  return std::unexpected(std::move(error));
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) ::FreeLibrary(static_cast<HMODULE>(handle_));
}

void* SharedLibrary::address(const char* name) const {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(handle_), name));
}

}  // namespace penstock
