// The error type of everything that can fail, and the two macros that pass it on.
#pragma once

#include <fmt/format.h>

#include <expected>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

// What kind of thing went wrong: decides the CLI's exit code and the API's status, never the
// wording.
enum class ErrorKind {
  kInvalidArgument,  // the caller's own words are wrong: a flag, a request field
  kInvalidData,      // a file or message breaks its format's rules
  kUnsupported,      // well-formed, but not something this version can do
  kNotFound,         // a file, tensor or model that is not there
  kIo,               // the operating system refused a read, write, map or socket call
  kExhausted,        // memory, pages, queue places or another budget ran out
  kUnavailable,      // not now: still loading, draining
  kCancelled,        // the client went away or the process is stopping
  kInternal,         // a library threw what it should not have
};

std::string_view to_string(ErrorKind kind);

// One sentence that says what was attempted, on what, and what was found against what was expected.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string hint = {};   // the flag or act that helps, as a sentence; may be empty
  std::string param = {};  // the request field at fault, for API errors; may be empty

  static Error from_errno(int code, std::string_view action, const std::filesystem::path& path);

  // The same error with `prefix: ` before its message: adds the file or field a lower layer did not
  // know.
  Error in(std::string_view prefix) const;

  // "message (hint)": what people are shown.
  std::string text() const;
};

template <class T>
using Result = std::expected<T, Error>;

template <class... Args>
std::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace penstock

#define PENSTOCK_CONCAT_INNER(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_INNER(a, b)

// Returns the error of a Result<void> or Result<T> whose value is not needed.
#define PENSTOCK_TRY(expression)                                                  \
  do {                                                                            \
    if (auto tried = (expression); !tried) return std::unexpected(tried.error()); \
  } while (false)

// PENSTOCK_ASSIGN(auto header, read_header(file)): declares or assigns the value, or returns the
// error.
#define PENSTOCK_ASSIGN(target, ...) \
  PENSTOCK_ASSIGN_NAMED(PENSTOCK_CONCAT(assigned_, __COUNTER__), target, __VA_ARGS__)
#define PENSTOCK_ASSIGN_NAMED(name, target, ...)              \
  auto name = (__VA_ARGS__);                                  \
  if (!name) return std::unexpected(std::move(name).error()); \
  target = *std::move(name)
