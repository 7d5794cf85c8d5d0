#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/units.h"
#include "os/terminal.h"

namespace penstock {
namespace {

constexpr double kRedrawSeconds = 0.1;  // on a terminal
constexpr double kLineSeconds = 5.0;    // elsewhere
constexpr int kBarColumns = 24;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What is counted per second; 0 while there is nothing to tell it from.
double rate(const StageProgress& stage) {
  if (stage.seconds <= 0 || stage.done <= stage.first_done) return 0;
  return static_cast<double>(stage.done - stage.first_done) / stage.seconds;
}

std::string amount(const StageProgress& stage, uint64_t n) {
  return stage.unit.empty() ? format_bytes(n) : fmt::format("{} {}", format_count(n), stage.unit);
}

// "1.2 GiB of 4.7 GiB", "12 of 32 requests"
std::string part_of_total(const StageProgress& stage) {
  const std::string done = stage.unit.empty() ? format_bytes(stage.done) : format_count(stage.done);
  return fmt::format("{} of {}", done, amount(stage, stage.total));
}

// ", 830 MiB/s, 4.3 s left"
std::string speed(const StageProgress& stage) {
  const double per_second = rate(stage);
  if (per_second <= 0 || (stage.unit.empty() && per_second < 1)) return "";
  std::string text = stage.unit.empty()
                         ? fmt::format(", {}/s", format_bytes(static_cast<uint64_t>(per_second)))
                         : fmt::format(", {:.3g}/s", per_second);
  if (stage.total > stage.done) {
    const double left = static_cast<double>(stage.total - stage.done) / per_second;
    text += fmt::format(", {} left", format_seconds(left));
  }
  return text;
}

}  // namespace

std::string StageProgress::text() const {
  const std::string what = total == 0 ? amount(*this, done) : part_of_total(*this);
  return fmt::format("{}  {}{}", stage, what, speed(*this));
}

std::string StageProgress::summary() const {
  StageProgress over = *this;
  over.total = over.done;  // nothing is left
  return fmt::format("{}: {} in {}{}", stage, amount(*this, done), format_seconds(seconds),
                     speed(over));
}

std::string StageProgress::bar(int columns) const {
  std::string line = text();
  if (total > 0) {
    const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const int filled = static_cast<int>(part * kBarColumns);
    line = fmt::format("{}  [{:<{}}] {:3.0f}%  {}", stage,
                       std::string(static_cast<size_t>(filled), '#'), kBarColumns, part * 100,
                       line.substr(stage.size() + 2));
  }
  // The last column stays free: a terminal may wrap when it is written.
  const auto room = static_cast<size_t>(std::max(columns - 1, 1));
  if (line.size() > room) line.resize(room);
  return line;
}

ProgressDisplay::ProgressDisplay(std::string unit)
    : ProgressDisplay(Options{.out = stderr,
                              .unit = std::move(unit),
                              .terminal = is_terminal(stderr),
                              .columns = [] { return terminal_columns(stderr); },
                              .clock = steady_seconds}) {}

ProgressDisplay::ProgressDisplay(Options options) : options_(std::move(options)) {}

ProgressFn ProgressDisplay::function() {
  return [this](const ProgressUpdate& news) { update(news); };
}

void ProgressDisplay::update(const ProgressUpdate& news) {
  const double now = options_.clock();
  if (news.stage != stage_.stage) {
    finish();
    stage_ = {.stage = std::string(news.stage), .unit = options_.unit, .first_done = news.done};
    began_ = drawn_ = now;
  }
  stage_.done = news.done;
  stage_.total = news.total;
  stage_.seconds = now - began_;
  if (now - drawn_ < (options_.terminal ? kRedrawSeconds : kLineSeconds)) return;
  drawn_ = now;
  draw();
}

void ProgressDisplay::draw() {
  shown_ = true;
  if (options_.terminal) {
    fmt::print(options_.out, "\r\x1b[K{}", stage_.bar(options_.columns()));
  } else {
    fmt::print(options_.out, "{}\n", stage_.text());
  }
  std::fflush(options_.out);
}

// Work too short to have been drawn leaves no line.
void ProgressDisplay::finish() {
  if (shown_) {
    fmt::print(options_.out, "{}{}\n", options_.terminal ? "\r\x1b[K" : "", stage_.summary());
    std::fflush(options_.out);
  }
  stage_ = {};
  shown_ = false;
}

}  // namespace penstock
