// What a driver hands out, as objects that give it back: device memory, streams, events, graphs.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"
#include "cuda/driver.h"

namespace penstock {

// Device memory of its own. Move-only; freed at the end, when no queued work may use it.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(Driver& driver, size_t bytes);

  DeviceMemory(DeviceMemory&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (driver_ != nullptr) driver_->free(bytes_);
  }

  DeviceBytes bytes() const { return bytes_; }

 private:
  DeviceMemory(Driver& driver, DeviceBytes bytes) : driver_(&driver), bytes_(bytes) {}

  Driver* driver_;  // null: moved from
  DeviceBytes bytes_;
};

// Move-only; what is still queued at the end runs nevertheless.
class Stream {
 public:
  static Result<Stream> create(Driver& driver);

  Stream(Stream&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), id_(other.id_) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Stream() {
    if (driver_ != nullptr) driver_->destroy_stream(id_);
  }

  StreamId id() const { return id_; }

 private:
  Stream(Driver& driver, StreamId id) : driver_(&driver), id_(id) {}

  Driver* driver_;  // null: moved from
  StreamId id_;
};

// Move-only; streams that wait for it still do.
class Event {
 public:
  static Result<Event> create(Driver& driver);

  Event(Event&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)), id_(other.id_) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Event() {
    if (driver_ != nullptr) driver_->destroy_event(id_);
  }

  EventId id() const { return id_; }

 private:
  Event(Driver& driver, EventId id) : driver_(&driver), id_(id) {}

  Driver* driver_;  // null: moved from
  EventId id_;
};

// Recorded work. Move-only; not queued at the end.
class Graph {
 public:
  // Records what `queue_work()`, a Result<void>, queues on `stream`.
  template <class F>
  static Result<Graph> record(Driver& driver, StreamId stream, F queue_work) {
    PENSTOCK_TRY(settled(driver, driver.begin_graph(stream)));
    const Result<void> queued = queue_work();
    const Result<GraphId> id = settled(driver, driver.end_graph(stream));
    if (queued && id) return Graph(driver, *id);
    if (id) driver.destroy_graph(*id);
    return std::unexpected(queued ? id.error() : queued.error());
  }

  Graph(Graph&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)), id_(other.id_) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Graph() {
    if (driver_ != nullptr) driver_->destroy_graph(id_);
  }

  Result<void> launch(StreamId stream) const {
    return settled(*driver_, driver_->launch_graph(id_, stream));
  }

 private:
  Graph(Driver& driver, GraphId id) : driver_(&driver), id_(id) {}

  Driver* driver_;  // null: moved from
  GraphId id_;
};

}  // namespace penstock
