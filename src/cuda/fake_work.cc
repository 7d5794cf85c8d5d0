#include "cuda/fake_work.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace penstock {

StreamId FakeWork::add_stream() {
  const StreamId id{next_id_++};
  streams_[id];
  return id;
}

void FakeWork::remove_stream(StreamId stream) {
  finish(stream);
  streams_.erase(stream);
}

EventId FakeWork::add_event() {
  const EventId id{next_id_++};
  events_[id] = nullptr;
  return id;
}

void FakeWork::remove_event(EventId event) {
  latest_mark(event);  // which is the check that there is such an event
  events_.erase(event);
}

void FakeWork::queue(StreamId stream, std::vector<AddressRange> uses, std::function<bool()> run) {
  work_of(stream).push_back({.uses = std::move(uses), .run = std::move(run), .after = nullptr});
  run_some();
}

void FakeWork::record(EventId event, StreamId stream) {
  auto mark = std::make_shared<Mark>(Mark{.stream = stream});
  latest_mark(event) = mark;
  queue(stream, {}, [mark = std::move(mark)] { return mark->has_happened = true; });
}

void FakeWork::wait(StreamId stream, EventId event) {
  work_of(stream).push_back({.uses = {}, .run = [] { return true; }, .after = latest_mark(event)});
}

bool FakeWork::has_happened(EventId event) {
  const auto mark = latest_mark(event);
  if (!mark || mark->has_happened) return true;
  // Whoever asks again and again sees it happen at last, however lazy the rest is.
  if (toss()) run_towards(mark->stream);
  return mark->has_happened;
}

void FakeWork::finish(StreamId stream) {
  const Queue& work = work_of(stream);
  run_until([&] { return work.empty(); }, stream);
}

void FakeWork::finish(EventId event) {
  const auto mark = latest_mark(event);
  if (mark) run_until([&] { return mark->has_happened; }, mark->stream);
}

void FakeWork::run_some() {
  while (happens(eagerness_) && run_any()) {
  }
}

bool FakeWork::is_used(AddressRange range) const {
  const auto overlaps = [&](AddressRange used) { return used.overlaps(range); };
  return std::ranges::any_of(streams_, [&](const auto& stream) {
    return std::ranges::any_of(
        stream.second, [&](const Task& task) { return std::ranges::any_of(task.uses, overlaps); });
  });
}

FakeWork::Queue& FakeWork::work_of(StreamId stream) {
  const auto found = streams_.find(stream);
  PENSTOCK_CHECK(found != streams_.end(), "there is no such stream");
  return found->second;
}

std::shared_ptr<FakeWork::Mark>& FakeWork::latest_mark(EventId event) {
  const auto found = events_.find(event);
  PENSTOCK_CHECK(found != events_.end(), "there is no such event");
  return found->second;
}

bool FakeWork::is_ready(const Queue& queue) {
  return !queue.empty() && (!queue.front().after || queue.front().after->has_happened);
}

void FakeWork::run_first(Queue& queue) {
  Task task = std::move(queue.front());
  queue.pop_front();
  if (!task.run()) queue.push_front(std::move(task));
}

// The next task of any stream that has a ready one; false where there is none.
bool FakeWork::run_any() {
  std::vector<Queue*> ready;
  for (auto& [id, queue] : streams_) {
    if (is_ready(queue)) ready.push_back(&queue);
  }
  if (ready.empty()) return false;
  run_first(*ready[random_() % ready.size()]);
  return true;
}

// The next task of `stream`, or one that it waits for, directly or not.
void FakeWork::run_towards(StreamId stream) {
  // Ends: a wait is for a record that was queued before it.
  while (!is_ready(work_of(stream))) stream = work_of(stream).front().after->stream;
  run_first(work_of(stream));
}

// Sometimes only what is needed runs, sometimes anything that may: both are what a GPU could do.
void FakeWork::run_until(const std::function<bool()>& is_done, StreamId needed) {
  const bool is_lazy = toss();
  constexpr int64_t kMostTries = 1'000'000;
  for (int64_t tries = 0; !is_done(); ++tries) {
    PENSTOCK_CHECK(tries < kMostTries, "a kernel waits for the host, and the host for the kernel");
    if (is_lazy) {
      run_towards(needed);
    } else {
      run_any();
    }
  }
}

bool FakeWork::happens(double probability) {
  return std::bernoulli_distribution(probability)(random_);
}

}  // namespace penstock
