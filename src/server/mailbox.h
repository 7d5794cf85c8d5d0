// A sink for a connection: keeps a request's events until the connection's own thread takes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace penstock {

// When the engine had the event, however late its reader takes it.
struct TimedEvent {
  Event event;
  std::chrono::steady_clock::time_point time;
};

// Thread-safe.
class Mailbox : public EventSink {
 public:
  // `notify` is called on the engine's thread when events are delivered, once until they are taken.
  // When a token would be the one after `max_tokens` that nobody took, the reader has fallen too
  // far behind: the mailbox wants no more.
  Mailbox(std::function<void()> notify, size_t max_tokens)
      : notify_(std::move(notify)), max_tokens_(max_tokens) {}

  bool push(Event event) override;
  void deliver() override;

  // All there are, in order.
  std::vector<TimedEvent> take();
  bool overflowed() const;
  // The reader goes away: once this has returned, `notify` is not called any more.
  void close();

 private:
  mutable std::mutex mutex_;
  std::function<void()> notify_;  // under mutex_; empty when closed
  const size_t max_tokens_;
  std::vector<TimedEvent> events_;  // under mutex_
  bool notified_ = false;           // under mutex_: of events_, or some of them
  bool overflowed_ = false;         // under mutex_
};

}  // namespace penstock
