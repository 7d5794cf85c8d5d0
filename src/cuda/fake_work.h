// For tests, part of the fake driver: streams and events whose work runs late, in any order that
// they allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "cuda/driver.h"

namespace penstock {

// A run of addresses, the host's or the device's: the two never overlap.
struct AddressRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool overlaps(AddressRange other) const { return begin < other.end && other.begin < end; }
  bool contains(AddressRange other) const { return begin <= other.begin && other.end <= end; }
};

inline AddressRange range_of(std::span<const std::byte> host) {
  const auto begin = reinterpret_cast<uintptr_t>(host.data());
  return {begin, begin + host.size()};
}
inline AddressRange range_of(ConstDeviceBytes device) {
  const auto begin = static_cast<uint64_t>(device.address());
  return {begin, begin + device.size()};
}

// Thread-compatible. Work runs only inside calls, on the caller's thread.
class FakeWork {
 public:
  // `eagerness` in [0, 1): how likely each call is to run something, and then something more.
  FakeWork(uint64_t seed, double eagerness) : random_(seed), eagerness_(eagerness) {}

  StreamId add_stream();
  void remove_stream(StreamId stream);  // after its work
  EventId add_event();
  void remove_event(EventId event);

  // `uses` is what `run` reads or writes when its turn comes.
  // It returns whether it is done; else it runs once more when its turn comes again.
  void queue(StreamId stream, std::vector<AddressRange> uses, std::function<bool()> run);
  void record(EventId event, StreamId stream);
  void wait(StreamId stream, EventId event);
  bool has_happened(EventId event);
  void finish(StreamId stream);
  void finish(EventId event);

  // What a GPU does while the host is busy with something else.
  void run_some();
  bool toss() { return happens(0.5); }  // a coin, for what a driver may do or not

  bool is_used(AddressRange range) const;  // by queued work
  size_t n_streams() const { return streams_.size(); }
  size_t n_events() const { return events_.size(); }

 private:
  // One record of an event: a point in a stream's work.
  struct Mark {
    StreamId stream = {};
    bool has_happened = false;
  };
  struct Task {
    std::vector<AddressRange> uses;
    std::function<bool()> run;
    std::shared_ptr<const Mark> after;  // null: ready when its turn comes
  };
  using Queue = std::deque<Task>;

  Queue& work_of(StreamId stream);
  std::shared_ptr<Mark>& latest_mark(EventId event);
  static bool is_ready(const Queue& queue);
  static void run_first(Queue& queue);
  bool run_any();
  void run_towards(StreamId stream);
  void run_until(const std::function<bool()>& is_done, StreamId needed);
  bool happens(double probability);

  std::mt19937_64 random_;
  double eagerness_;
  std::map<StreamId, Queue> streams_;
  std::map<EventId, std::shared_ptr<Mark>> events_;  // the latest record; null: never recorded
  uint32_t next_id_ = 1;
};

}  // namespace penstock
