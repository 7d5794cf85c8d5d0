// A sink for readers that wait: a thread-safe queue of one request's events.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "engine/request.h"

namespace penstock {

// Thread-safe.
class EventQueue : public EventSink {
 public:
  bool push(Event event) override;
  // Waits for the next event. Not to be called after the last one.
  Event pop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

}  // namespace penstock
