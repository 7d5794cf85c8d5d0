#include "os/shared_library.h"

#include <dlfcn.h>

namespace penstock {

Result<SharedLibrary> SharedLibrary::open(const std::string& name) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(handle);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the text for each thread
  const char* const why = ::dlerror();
  return fail(ErrorKind::kNotFound, "cannot load {}: {}", name,
              why != nullptr ? why : "the loader does not say why");
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* SharedLibrary::address(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace penstock
