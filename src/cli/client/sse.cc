#include "cli/client/sse.h"

#include <algorithm>
#include <utility>

namespace penstock {

SseReader::State SseReader::feed(std::string_view bytes, const OnData& on_data) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') {
      after_cr_ = false;
      bytes.remove_prefix(1);
      continue;
    }
    after_cr_ = false;
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + data_.size() + end > max_event_bytes_) return State::kTooLong;
    line_ += bytes.substr(0, end);
    if (end == bytes.size()) return State::kMore;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (!end_line(on_data)) return State::kStopped;
  }
  return State::kMore;
}

// An empty line ends the event. False: nobody wants more.
bool SseReader::end_line(const OnData& on_data) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    const std::string data = std::exchange(data_, {});
    return !std::exchange(has_data_, false) || on_data(data);
  }
  const size_t colon = std::min(line.find(':'), line.size());
  if (std::string_view(line).substr(0, colon) != "data") return true;
  std::string_view value = std::string_view(line).substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += value;
  return true;
}

}  // namespace penstock
