#include "server/mailbox.h"

#include <utility>

namespace penstock {

bool Mailbox::push(Event event) {
  const std::scoped_lock lock(mutex_);
  if (!notify_) return false;
  if (events_.size() >= max_tokens_ && std::holds_alternative<TokenEvent>(event)) {
    overflowed_ = true;
    return false;
  }
  events_.push_back({std::move(event), std::chrono::steady_clock::now()});
  return true;
}

void Mailbox::deliver() {
  const std::scoped_lock lock(mutex_);
  if (events_.empty() || notified_ || !notify_) return;
  notified_ = true;
  notify_();
}

std::vector<TimedEvent> Mailbox::take() {
  const std::scoped_lock lock(mutex_);
  notified_ = false;
  return std::exchange(events_, {});
}

bool Mailbox::overflowed() const {
  const std::scoped_lock lock(mutex_);
  return overflowed_;
}

void Mailbox::close() {
  const std::scoped_lock lock(mutex_);
  notify_ = nullptr;
}

}  // namespace penstock
