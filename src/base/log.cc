#include "base/log.h"

// spdlog is header-only here: this is the one file that compiles it.
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace penstock {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

Log Log::to_stderr(LogLevel level) {
  auto logger =
      std::make_shared<spdlog::logger>("penstock", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog_level(level));
  return Log(std::move(logger));
}

Log Log::none() { return Log(nullptr); }

void Log::set_level(LogLevel level) {
  if (logger_) logger_->set_level(spdlog_level(level));
}

void Log::write(LogLevel level, fmt::string_view format, fmt::format_args args) const {
  if (!logger_ || !logger_->should_log(spdlog_level(level))) return;
  logger_->log(spdlog_level(level), fmt::vformat(format, args));
}

}  // namespace penstock
