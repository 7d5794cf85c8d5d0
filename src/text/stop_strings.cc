#include "text/stop_strings.h"

#include <queue>
#include <utility>

#include "text/unicode.h"

namespace penstock {
namespace {

constexpr size_t kMaxTotalBytes = 64 << 10;

std::unexpected<Error> refuse(std::string message) {
  return std::unexpected(
      Error{.kind = ErrorKind::kInvalidArgument, .message = std::move(message), .param = "stop"});
}

}  // namespace

Result<StopStrings> StopStrings::create(std::span<const std::string> stops) {
  StopStrings made;
  made.states_.emplace_back();
  size_t total = 0;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return refuse(fmt::format("stop string {} is empty", i));
    if (find_invalid_utf8(stops[i]))
      return refuse(fmt::format("stop string {} is not valid UTF-8", i));
    total += stops[i].size();
    if (total > kMaxTotalBytes) {
      return refuse(
          fmt::format("the stop strings have more than {} bytes together", kMaxTotalBytes));
    }
    made.stops_.push_back(stops[i]);
    made.insert(i);
  }
  made.link();
  return made;
}

uint32_t StopStrings::child_of(uint32_t state, char byte) const {
  for (const auto& [key, child] : states_[state].children) {
    if (key == byte) return child;
  }
  return 0;
}

void StopStrings::insert(size_t stop) {
  uint32_t state = 0;
  for (const char byte : stops_[stop]) {
    uint32_t next = child_of(state, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(states_.size());
      states_.push_back({.children = {}, .length = states_[state].length + 1});
      states_[state].children.emplace_back(byte, next);
    }
    state = next;
  }
  states_[state].stop = static_cast<int32_t>(stop);
}

// Breadth first, so that a state's fallback, which is shorter, is complete before it.
void StopStrings::link() {
  std::queue<uint32_t> open;
  open.push(0);
  while (!open.empty()) {
    const uint32_t state = open.front();
    open.pop();
    for (const auto& [byte, child] : states_[state].children) {
      const uint32_t fallback = state == 0 ? 0 : step(states_[state].fallback, byte);
      states_[child].fallback = fallback;
      if (states_[child].stop < 0) states_[child].stop = states_[fallback].stop;
      open.push(child);
    }
  }
}

uint32_t StopStrings::step(uint32_t state, char byte) const {
  while (true) {
    if (const uint32_t child = child_of(state, byte)) return child;
    if (state == 0) return 0;
    state = states_[state].fallback;
  }
}

std::string StopStrings::push(std::string_view piece) {
  if (stopped()) return {};
  for (const char byte : piece) {
    held_ += byte;
    state_ = step(state_, byte);
    if (states_[state_].stop < 0) continue;
    matched_ = states_[state_].stop;
    std::string shown = std::move(held_);
    held_.clear();
    shown.resize(shown.size() - matched().size());
    return shown;
  }
  const size_t n_shown = held_.size() - states_[state_].length;
  std::string shown = held_.substr(0, n_shown);
  held_.erase(0, n_shown);
  return shown;
}

std::string StopStrings::finish() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace penstock
