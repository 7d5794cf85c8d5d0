// One tool call as a model writes it, read byte by byte: what its three ways of writing share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/answer/delta_collector.h"
#include "engine/answer/json_mender.h"

namespace penstock {

// Reads one call. Until it is sure of it, which is when a declared name has been read and arguments
// begin, it writes nothing; from then on it is a call, whatever follows. Thread-compatible.
class CallReader {
 public:
  enum class Step : uint8_t {
    kMore,
    kDone,        // `byte` was the call's last
    kDoneBefore,  // the call has ended before `byte`
    kNoCall,      // and nothing has been written
  };
  virtual ~CallReader() = default;
  // After anything but kMore there is nothing more to push.
  virtual Step push(char byte, DeltaCollector& out) = 0;
  // The answer ends here. A call of which only the ending is missing is ended.
  virtual void finish(DeltaCollector& out) = 0;

  bool is_call() const { return is_call_; }

 protected:
  void begin(std::string_view name, DeltaCollector& out) {
    is_call_ = true;
    out.begin_call(name);
  }

 private:
  bool is_call_ = false;
};

// Streams the arguments of a call that has begun, mended; and where they cannot be, as they are, up
// to `terminator` (empty: to the end of the answer), for the client to see what the model wrote.
class ArgumentsReader {
 public:
  explicit ArgumentsReader(std::string_view terminator) : terminator_(terminator) {}

  enum class Step : uint8_t {
    kMore,
    kDone,        // `byte` was their last
    kTerminated,  // they are no JSON, and the terminator has come
  };
  Step push(char byte, DeltaCollector& out);
  void finish(DeltaCollector& out);

 private:
  Step push_raw(char byte, DeltaCollector& out);

  std::string_view terminator_;
  JsonMender mender_;
  bool is_raw_ = false;
  std::string held_;  // the terminator's beginning
};

}  // namespace penstock
