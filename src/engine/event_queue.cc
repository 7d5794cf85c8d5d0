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

Event EventQueue::take_first() {
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

Event EventQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !events_.empty(); });
  return take_first();
}

std::optional<Event> EventQueue::pop_within(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, limit, [&] { return !events_.empty(); })) return std::nullopt;
  return take_first();
}

}  // namespace penstock
