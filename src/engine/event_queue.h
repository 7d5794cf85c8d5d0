// A sink for readers that wait: a thread-safe queue of one request's events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "engine/request.h"

namespace penstock {

// Thread-safe.
class EventQueue : public EventSink {
 public:
  bool push(Event event) override;
  // Waits for the next event. Not to be called after the last one.
  Event pop();
  // The same, but gives up after `limit`.
  std::optional<Event> pop_within(std::chrono::milliseconds limit);

 private:
  Event take_first();  // mutex_ is held, events_ is not empty

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

}  // namespace penstock
