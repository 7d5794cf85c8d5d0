#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/event_queue.h"
#include "engine/fake_model.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

GenerationRequest greedy(std::vector<int32_t> prompt, int64_t max_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0.0},
          .max_tokens = max_tokens,
          .ignore_eos = true};
}

struct Answer {
  std::vector<int32_t> tokens;
  std::variant<RequestEnd, Error> end;
};

Answer read_to_the_end(EventQueue& events) {
  Answer answer;
  for (;;) {
    const Event event = events.pop();
    if (const auto* token = std::get_if<TokenEvent>(&event)) {
      answer.tokens.push_back(token->id);
    } else if (std::holds_alternative<BeginEvent>(event)) {
      EXPECT_TRUE(answer.tokens.empty());
    } else if (const auto* end = std::get_if<RequestEnd>(&event)) {
      answer.end = *end;
      return answer;
    } else {
      answer.end = std::get<Error>(event);
      return answer;
    }
  }
}

Answer ask(Engine& engine, GenerationRequest request) {
  auto events = std::make_shared<EventQueue>();
  auto handle = engine.submit(std::move(request), events);
  EXPECT_TRUE(handle);
  return read_to_the_end(*events);
}

// Stats are published after each step: the last one may still be on its way.
bool becomes_idle(const Engine& engine) {
  for (int i = 0; i < 5000; ++i) {
    const EngineStats stats = engine.stats();
    if (stats.n_running == 0 && stats.n_waiting == 0)
      return stats.n_free_pages + stats.n_cached_pages == stats.n_pages;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

// Holds every step until it is opened.
class Gate {
 public:
  void open() {
    {
      const std::scoped_lock lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++n_arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_arrived_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_arrived_ = 0;
  bool open_ = false;
};

FakeModelOptions gated(Gate& gate) {
  return {.on_step = [&gate](auto) -> Result<void> {
    gate.pass();
    return {};
  }};
}

std::unique_ptr<Engine> start(FakeModelOptions model = {}, EngineOptions options = {}) {
  return Engine::start(std::make_unique<FakeModel>(std::move(model)), /*eos_ids=*/{}, options,
                       Log::none());
}

TEST(Engine, ManyThreadsGetTheAnswersTheyWouldGetAlone) {
  const auto engine = start({.n_pages = 8});
  constexpr int kClients = 8;
  std::vector<Answer> alone;
  for (int i = 0; i < kClients; ++i) alone.push_back(ask(*engine, greedy({i, 1, 2}, 100 + i)));
  std::vector<std::future<Answer>> together;
  for (int i = 0; i < kClients; ++i) {
    together.push_back(std::async(std::launch::async,
                                  [&, i] { return ask(*engine, greedy({i, 1, 2}, 100 + i)); }));
  }
  for (int i = 0; i < kClients; ++i) {
    const auto index = static_cast<size_t>(i);
    EXPECT_EQ(together[index].get().tokens, alone[index].tokens) << i;
    EXPECT_EQ(alone[index].tokens.size(), 100 + index);
  }
  EXPECT_TRUE(becomes_idle(*engine));
}

TEST(Engine, AFullQueueRefusesWithBothNumbers) {
  Gate gate;
  const auto engine = start(gated(gate), {.max_waiting = 2, .scheduler = {.max_running = 1}});
  std::vector<std::shared_ptr<EventQueue>> events;
  std::vector<RequestHandle> handles;
  const auto submit = [&] {
    events.push_back(std::make_shared<EventQueue>());
    return engine->submit(greedy({1}, 2), events.back());
  };
  handles.push_back(*submit());
  gate.wait_for_arrival();  // it runs; from here on requests wait
  // The engine's own count of who waits is as of its last step: one more may be counted.
  Result<RequestHandle> last = submit();
  int n_accepted = 0;
  while (last) {
    handles.push_back(*std::move(last));
    ASSERT_LE(++n_accepted, 2);
    last = submit();
  }
  EXPECT_GE(n_accepted, 1);
  EXPECT_EQ(last.error().kind, ErrorKind::kExhausted);
  EXPECT_NE(last.error().message.find('2'), std::string::npos);
  events.pop_back();
  gate.open();
  for (const auto& queue : events) EXPECT_EQ(read_to_the_end(*queue).tokens.size(), 2U);
  EXPECT_EQ(ask(*engine, greedy({1}, 2)).tokens.size(), 2U) << "the queue did not empty";
}

// BC-58
TEST(Engine, AbortTakesEffectWithinAStepAndAgainDoesNothing) {
  const auto engine = start();
  for (int i = 0; i < 50; ++i) {
    auto events = std::make_shared<EventQueue>();
    auto handle = engine->submit(greedy({i}, 4000), events);
    ASSERT_TRUE(handle);
    if (i % 3 != 0) {
      ASSERT_TRUE(std::holds_alternative<BeginEvent>(events->pop()));
      ASSERT_TRUE(std::holds_alternative<TokenEvent>(events->pop()));
    }
    handle->abort();
    handle->abort();
    const Answer answer = read_to_the_end(*events);
    ASSERT_TRUE(std::holds_alternative<RequestEnd>(answer.end));
    EXPECT_EQ(std::get<RequestEnd>(answer.end).reason, EndReason::kAborted);
    handle->abort();
  }
  EXPECT_TRUE(becomes_idle(*engine));
  EXPECT_EQ(ask(*engine, greedy({1}, 5)).tokens.size(), 5U);
}

// Whoever was told that the cache is empty may look at once.
TEST(Engine, ADroppedCacheIsCountedBeforeItIsReported) {
  const auto engine = start();
  for (int i = 0; i < 50; ++i) {
    ask(*engine, greedy(std::vector<int32_t>(200, i), 3));
    EXPECT_EQ(engine->drop_cache(), 4);
    const EngineStats stats = engine->stats();
    ASSERT_EQ(stats.n_free_pages, stats.n_pages) << i;
    ASSERT_EQ(stats.n_cached_pages, 0) << i;
  }
}

// Those that are held and a long prompt's; requests that come meanwhile do not wait for the rest.
TEST(Engine, MakesPagesReadyWhileItIsIdle) {
  constexpr int64_t kAhead = 8192 / kPageTokens;
  std::atomic<int64_t> n_asked = 0, most = 0;
  std::atomic<bool> is_left = true;
  FakeModelOptions options = {.n_pages = 1000};
  options.on_ready_pages = [&](int64_t n_pages) {
    most = std::max(most.load(), n_pages);
    ++n_asked;
    return is_left.load();
  };
  const auto engine = start(std::move(options));
  while (n_asked < 3) std::this_thread::yield();
  EXPECT_EQ(most, kAhead);
  EXPECT_EQ(ask(*engine, greedy(std::vector<int32_t>(100, 5), 10)).tokens.size(), 10u);
  while (most < kAhead + 2) std::this_thread::yield();  // the prefix cache holds the answer's
  is_left = false;
  EXPECT_TRUE(becomes_idle(*engine));
}

TEST(Engine, DroppingTheHandleAborts) {
  const auto engine = start();
  auto events = std::make_shared<EventQueue>();
  {
    const auto handle = engine->submit(greedy({1}, 1'000'000), events);
  }
  EXPECT_EQ(std::get<RequestEnd>(read_to_the_end(*events).end).reason, EndReason::kAborted);
}

TEST(Engine, StoppingEndsWhatRunsAndWhatWaits) {
  Gate gate;
  auto engine = start(gated(gate), {.scheduler = {.max_running = 1}});
  std::vector<std::shared_ptr<EventQueue>> events;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 3; ++i) {
    events.push_back(std::make_shared<EventQueue>());
    handles.push_back(*engine->submit(greedy({1}, 1'000'000), events.back()));
  }
  gate.wait_for_arrival();
  auto stopped = std::async(std::launch::async, [&] { engine.reset(); });
  gate.open();
  stopped.get();
  for (const auto& queue : events) {
    const Answer answer = read_to_the_end(*queue);
    ASSERT_TRUE(std::holds_alternative<Error>(answer.end));
    EXPECT_EQ(std::get<Error>(answer.end).kind, ErrorKind::kCancelled);
  }
}

TEST(Engine, RefusesOnTheCallersThread) {
  const auto engine = start({.n_pages = 1});
  EXPECT_EQ(engine->context_limit(), kPageTokens);
  const auto refused =
      engine->submit(greedy(std::vector<int32_t>(65, 1), 1), std::make_shared<EventQueue>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
