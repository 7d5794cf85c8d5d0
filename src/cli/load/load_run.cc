#include "cli/load/load_run.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "base/json.h"
#include "cli/client/completion_stream.h"
#include "server/await.h"

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
// g++ 12 inlines the operator new of an awaitable's frame, but not its operator delete, and takes
// the two for strangers.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

namespace penstock {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

// A client whose request failed waits so long: one that is refused at once must not keep a core
// busy with being refused.
constexpr auto kPauseAfterFailure = std::chrono::milliseconds(100);

class LoadRun {
 public:
  LoadRun(const LoadShape& shape, const LoadTarget& target,
          const std::function<LoadRequest(int64_t)>& request_of, const ProgressFn& progress)
      : shape_(shape), target_(target), request_of_(request_of), progress_(progress) {}

  LoadResult run();

 private:
  asio::awaitable<void> send_in_turn();   // one client of a closed loop
  asio::awaitable<void> send_when_due();  // an open loop
  asio::awaitable<void> send_on_any_client(double due);
  asio::awaitable<void> send(HttpClient& client, double due);
  asio::awaitable<void> sleep_until(Clock::time_point time);

  void spawn(asio::awaitable<void> work);
  bool has_more() const;
  double now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  Clock::time_point at(double seconds) const;
  std::unique_ptr<HttpClient> take_client();
  void report() const;

  const LoadShape& shape_;
  const LoadTarget& target_;
  const std::function<LoadRequest(int64_t)>& request_of_;
  const ProgressFn& progress_;

  asio::io_context context_{1};
  Clock::time_point began_ = Clock::now();
  int64_t n_begun_ = 0;
  std::vector<std::unique_ptr<HttpClient>> idle_ = {};  // of an open loop: their connections stay
  LoadResult result_ = {};
  std::exception_ptr thrown_ = {};
};

LoadResult LoadRun::run() {
  report();
  if (shape_.concurrency > 0) {
    for (int i = 0; i < shape_.concurrency; ++i) spawn(send_in_turn());
  } else {
    spawn(send_when_due());
  }
  context_.run();
  if (thrown_) std::rethrow_exception(thrown_);
  return std::move(result_);
}

asio::awaitable<void> LoadRun::send_in_turn() {
  HttpClient client(context_.get_executor(), target_.connection);
  while (has_more()) {
    const double due = now();
    co_await send(client, due);
    if (!result_.records.back().failure.empty()) {
      const auto later = Clock::now() + kPauseAfterFailure;
      co_await sleep_until(later);
    }
  }
}

asio::awaitable<void> LoadRun::send_when_due() {
  Random random = random_for(shape_.seed, /*a=*/0);
  for (double due = 0;; due += exponential_draw(random, shape_.rate)) {
    if (shape_.seconds > 0 && due >= shape_.seconds) co_return;
    const auto time = at(due);
    co_await sleep_until(time);
    if (!has_more()) co_return;
    spawn(send_on_any_client(due));
  }
}

asio::awaitable<void> LoadRun::send_on_any_client(double due) {
  std::unique_ptr<HttpClient> client = take_client();
  co_await send(*client, due);
  idle_.push_back(std::move(client));
}

asio::awaitable<void> LoadRun::send(HttpClient& client, double due) {
  RequestRecord record = {.began = due};
  double arrived = 0;
  double last = 0;
  CompletionStream stream([&](const StreamDelta&) {
    if (record.n_chunks++ == 0) {
      record.first = arrived;
    } else {
      record.gaps.push_back(arrived - last);
    }
    last = arrived;
  });
  BodySink sink = [&](std::string_view bytes) {
    arrived = now();
    return stream.feed(bytes);
  };
  HttpCall call = load_call(target_, request_of_(n_begun_++), /*stream=*/true);
  // Named: g++ 12 destroys the temporaries of such a call twice when they are part of a co_await.
  auto answering = client.call(std::move(call), std::move(sink));
  const auto reply = co_await std::move(answering);
  record.ended = now();
  if (record.n_chunks == 0) record.first = record.ended;
  const auto failure =
      reply ? stream.failure(target_.connection.url.text) : std::optional(reply.error());
  if (failure) {
    record.failure = failure->label();
    record.message = failure->message;
  }
  record.has_usage = stream.usage().has_value();
  record.input_tokens = record.has_usage ? stream.usage()->prompt_tokens : 0;
  record.output_tokens = record.has_usage ? stream.usage()->completion_tokens : record.n_chunks;
  result_.seconds = record.ended;
  result_.records.push_back(std::move(record));
  report();
}

asio::awaitable<void> LoadRun::sleep_until(Clock::time_point time) {
  asio::steady_timer timer(context_, time);
  co_await timer.async_wait(kAwait);
}

void LoadRun::spawn(asio::awaitable<void> work) {
  asio::co_spawn(context_, std::move(work), [this](std::exception_ptr exception) {
    if (!exception) return;
    thrown_ = exception;
    context_.stop();
  });
}

bool LoadRun::has_more() const {
  return (shape_.n_requests == 0 || n_begun_ < shape_.n_requests) &&
         (shape_.seconds == 0 || now() < shape_.seconds);
}

Clock::time_point LoadRun::at(double seconds) const {
  return began_ + std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::unique_ptr<HttpClient> LoadRun::take_client() {
  if (idle_.empty()) {
    return std::make_unique<HttpClient>(context_.get_executor(), target_.connection);
  }
  auto client = std::move(idle_.back());
  idle_.pop_back();
  return client;
}

void LoadRun::report() const {
  if (!progress_) return;
  const std::string stage = shape_.concurrency > 0 ? fmt::format("{} at once", shape_.concurrency)
                                                   : fmt::format("{:g} a second", shape_.rate);
  progress_({.stage = stage,
             .done = result_.records.size(),
             .total = static_cast<uint64_t>(shape_.n_requests)});
}

}  // namespace

HttpCall load_call(const LoadTarget& target, const LoadRequest& request, bool stream) {
  const bool is_chat = target.route == LoadRoute::kChat;
  OrderedJson body = {{"model", target.model}};
  if (is_chat) {
    body["messages"] = OrderedJson::array({{{"role", "user"}, {"content", request.prompt}}});
  } else {
    body["prompt"] = request.prompt;
  }
  body["max_tokens"] = request.max_tokens;
  body["temperature"] = 0;
  if (stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  if (target.ignore_eos) body["ignore_eos"] = true;
  return {.method = "POST",
          .path = is_chat ? "/v1/chat/completions" : "/v1/completions",
          .body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
}

LoadResult run_load(const LoadShape& shape, const LoadTarget& target,
                    const std::function<LoadRequest(int64_t)>& request_of,
                    const ProgressFn& progress) {
  return LoadRun(shape, target, request_of, progress).run();
}

}  // namespace penstock
