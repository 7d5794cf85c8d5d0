// The log every room writes to: one line per event an operator acts on, to stderr, never prompts or
// keys.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

namespace spdlog {
class logger;  // NOLINT(readability-identifier-naming): theirs
}

namespace penstock {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Thread-safe. Cheap to copy: copies write to the same place.
class Log {
 public:
  // Writes "date time level message" lines to stderr.
  static Log to_stderr(LogLevel level = LogLevel::kInfo);
  // Drops everything: for tests and libraries that were given none.
  static Log none();

  void set_level(LogLevel level);

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kDebug, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kInfo, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kWarning, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kError, format, fmt::make_format_args(args...));
  }

 private:
  explicit Log(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
  void write(LogLevel level, fmt::string_view format, fmt::format_args args) const;

  std::shared_ptr<spdlog::logger> logger_;  // null: drops everything
};

}  // namespace penstock
