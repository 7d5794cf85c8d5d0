// Libraries that are there on some machines only: looked for at run time, never needed to start.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace penstock {

// Move-only; closed at the end, and with it all that symbol() gave.
class SharedLibrary {
 public:
  // By the name that the system's loader looks for. One that is not there is kNotFound.
  static Result<SharedLibrary> open(const std::string& name);

  SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedLibrary& operator=(SharedLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~SharedLibrary();

  // The function of that name, of the type that the caller knows it has; null: there is none.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* address(const char* name) const;

  void* handle_;
};

}  // namespace penstock
