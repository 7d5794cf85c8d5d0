// What /metrics tells, in Prometheus' text form: what the server counts and times itself, and the
// engine's numbers as they are when asked.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

struct EngineStats;

// How a request for generated text ended.
enum class AnswerOutcome {
  kCompleted,
  kRefused,       // by a 4xx or 503, before the engine had it
  kDisconnected,  // the client left, or did not read
  kCancelled,     // by an operator, --request-timeout or the server's end
  kFailed,        // ours
};

// Thread-safe.
class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void count_response(unsigned status);
  // `route`: one of our paths, never what a client made up.
  void count_answer(std::string_view route, AnswerOutcome outcome);
  void observe_first_token(double seconds);
  void observe_next_token(double seconds);

  // `stats`: null while there is no engine.
  std::string text(const EngineStats* stats, size_t n_connections) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace penstock
