#include "engine/event_queue.h"

namespace penstock {

bool EventQueue::push(Event event) {
  {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
  }
  changed_.notify_one();
  return true;
}

Event EventQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !events_.empty(); });
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace penstock
