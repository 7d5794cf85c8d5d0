// What all connections of a server share: the model once there is one, the options, and how many
// answers are being given.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "server/access.h"
#include "server/metrics.h"
#include "server/request_pool.h"
#include "server/running_answers.h"
#include "server/server.h"

namespace penstock {

// How loading goes, in /health.
struct LoadState {
  std::string stage = "starting";
  double fraction = 0.0;  // [0, 1]
};

// Thread-safe. What begins is counted while the Place it got lives.
class ServerState {
 public:
  // Move-only.
  class Place {
   public:
    Place(Place&& other) noexcept
        : state_(std::exchange(other.state_, nullptr)), count_(other.count_) {}
    Place& operator=(Place&&) = delete;
    ~Place();

   private:
    friend class ServerState;
    Place(ServerState* state, size_t* count) : state_(state), count_(count) {}

    ServerState* state_;
    size_t* count_;
  };

  ServerState(ServerOptions options_in, Log log_in);

  const ServerOptions options;
  const Log log;
  const Access access;
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  Metrics metrics;
  RunningAnswers answers;
  RequestPool request_pool;

  void set_progress(const ProgressUpdate& update);
  void set_ready(ServedModel model);

  std::shared_ptr<const ServedModel> model() const;  // null while loading
  LoadState load_state() const;

  // kExhausted when max_connections are open.
  Result<Place> begin_connection();
  // kUnavailable once draining.
  Result<Place> begin_answer();
  bool draining() const;
  size_t n_connections() const;
  // No answers begin any more; waits for the others. False: some are left after `limit`.
  bool drain(std::chrono::milliseconds limit);

 private:
  mutable std::mutex mutex_;
  std::condition_variable place_free_;
  std::shared_ptr<const ServedModel> model_;  // under mutex_
  LoadState load_state_;                      // under mutex_
  size_t n_connections_ = 0;                  // under mutex_
  size_t n_answers_ = 0;                      // under mutex_
  bool draining_ = false;                     // under mutex_
};

}  // namespace penstock
