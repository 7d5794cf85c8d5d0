// Server-sent events, from bytes that arrive in any pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace penstock {

// Reads the event stream format of the HTML standard (section 9.2.6): lines end in LF, CRLF or CR;
// "data" lines of one event are joined with LF; comments and other fields are passed over. What the
// end of the stream cuts off is no event.
class SseReader {
 public:
  // Called with each event's data; false: read no further.
  using OnData = std::function<bool(std::string_view)>;

  explicit SseReader(size_t max_event_bytes = size_t{8} << 20)
      : max_event_bytes_(max_event_bytes) {}

  enum class State { kMore, kStopped, kTooLong };

  // The next bytes. After kStopped or kTooLong it must not be fed again.
  State feed(std::string_view bytes, const OnData& on_data);

 private:
  bool end_line(const OnData& on_data);

  size_t max_event_bytes_;
  std::string line_ = {};
  std::string data_ = {};  // of the event being read
  bool has_data_ = false;
  bool after_cr_ = false;  // an LF now belongs to the line end that was just seen
};

}  // namespace penstock
