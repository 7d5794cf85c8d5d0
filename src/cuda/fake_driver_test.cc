#include "cuda/fake_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/device_objects.h"

namespace penstock {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}
template <class T>
std::span<std::byte> bytes_of(std::vector<T>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

// Host memory that begins with an OS page.
class Pages {
 public:
  explicit Pages(size_t n) : storage_((n + 1) * kFakeOsPageBytes) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    const size_t skip = (kFakeOsPageBytes - address % kFakeOsPageBytes) % kFakeOsPageBytes;
    bytes_ = std::span(storage_).subspan(skip, n * kFakeOsPageBytes);
  }
  std::span<std::byte> pages(size_t begin, size_t count) const {
    return bytes_.subspan(begin * kFakeOsPageBytes, count * kFakeOsPageBytes);
  }

 private:
  std::vector<std::byte> storage_;
  std::span<std::byte> bytes_;
};

void add_fill_kernel(FakeDriver& driver) {
  driver.add_kernel("fill", [](const FakeKernelCall& call) {
    std::ranges::fill(call.span<int>(0), call.value<int>(1));
  });
}

TEST(FakeDriver, ACopyThereAndBackIsTheSame) {
  FakeDriver driver;
  auto memory = DeviceMemory::allocate(driver, 4000);
  const auto stream = Stream::create(driver);
  ASSERT_TRUE(memory && stream);
  std::vector<int> numbers(1000);
  std::ranges::generate(numbers, [i = 0]() mutable { return i++; });
  std::vector<int> back(1000, -1);
  ASSERT_TRUE(driver.copy_to_device(memory->bytes(), bytes_of(numbers), stream->id()));
  ASSERT_TRUE(driver.copy_to_host(bytes_of(back), memory->bytes(), stream->id()));
  ASSERT_TRUE(driver.synchronise(stream->id()));
  EXPECT_EQ(back, numbers);
}

TEST(FakeDriver, DeviceMemoryEndsWhereItEnds) {
  FakeDriver driver({.device_bytes = 1000 * kDeviceAlignment});
  const auto memory = DeviceMemory::allocate(driver, 10);
  ASSERT_TRUE(memory);
  EXPECT_EQ(driver.device_bytes_used(), kDeviceAlignment);
  EXPECT_EQ(driver.memory_info()->free_bytes, 999 * kDeviceAlignment);
  EXPECT_EQ(static_cast<uint64_t>(memory->bytes().address()) % kDeviceAlignment, 0u);
  EXPECT_EQ(DeviceMemory::allocate(driver, 1000 * kDeviceAlignment).error().kind,
            ErrorKind::kExhausted);
  EXPECT_EQ(DeviceMemory::allocate(driver, SIZE_MAX).error().kind, ErrorKind::kExhausted);
  EXPECT_TRUE(DeviceMemory::allocate(driver, 999 * kDeviceAlignment));

  const auto stream = Stream::create(driver);
  const std::vector<std::byte> eleven(11);
  const DeviceBytes too_long(driver.device(), memory->bytes().address(), 11);
  const auto refused = settled(driver, driver.copy_to_device(too_long, eleven, stream->id()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
}

TEST(FakeDriver, AKernelIsAHostFunctionOverItsSpansAndValues) {
  FakeDriver driver;
  driver.add_kernel("scale", [](const FakeKernelCall& call) {
    EXPECT_EQ(call.launch().grid.x, 2u);
    const auto in = call.span<const float>(1);
    const auto out = call.span<float>(0);
    for (size_t i = 0; i < in.size(); ++i) out[i] = call.value<float>(2) * in[i];
  });
  const auto memory = DeviceMemory::allocate(driver, 4 * sizeof(float));
  const auto stream = Stream::create(driver);
  std::vector<float> numbers = {1, 2, 3, 4};
  const auto floats = memory->bytes().as<float>();
  ASSERT_TRUE(driver.copy_to_device(memory->bytes(), bytes_of(numbers), stream->id()));
  ASSERT_TRUE(driver.launch({.kernel = "scale", .grid = {2}, .thread_block = {2}},
                            {floats, DeviceSpan<const float>(floats), 3.0F}, stream->id()));
  ASSERT_TRUE(driver.copy_to_host(bytes_of(numbers), memory->bytes(), stream->id()));
  ASSERT_TRUE(driver.synchronise(stream->id()));
  EXPECT_EQ(numbers, (std::vector<float>{3, 6, 9, 12}));

  const auto launch = [&](const KernelLaunch& of) {
    return settled(driver, driver.launch(of, {floats}, stream->id()));
  };
  EXPECT_EQ(launch({.kernel = "absent"}).error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(launch({.kernel = "scale", .grid = {0}}));
  EXPECT_FALSE(launch({.kernel = "scale", .thread_block = {1025}}));
  const DeviceSpan<float> elsewhere(driver.device(), floats.address(), 5);
  EXPECT_FALSE(settled(driver, driver.launch({.kernel = "scale"}, {elsewhere}, stream->id())));
}

TEST(FakeDriver, AKernelReadsRegisteredHostMemoryThroughItsView) {
  FakeDriver driver;
  add_fill_kernel(driver);
  const Pages host(2);
  EXPECT_FALSE(settled(driver, driver.device_view(host.pages(0, 1))));
  ASSERT_TRUE(driver.register_host(host.pages(0, 2)));
  const auto view = driver.device_view(host.pages(1, 1));
  ASSERT_TRUE(view);
  EXPECT_NE(static_cast<uint64_t>(view->address()),
            reinterpret_cast<uintptr_t>(host.pages(1, 1).data()));
  {
    const auto stream = Stream::create(driver);
    ASSERT_TRUE(driver.launch({.kernel = "fill"}, {view->as<int>(), 0x01010101}, stream->id()));
  }
  EXPECT_EQ(host.pages(0, 2)[kFakeOsPageBytes - 1], std::byte{0});
  EXPECT_EQ(host.pages(1, 1).front(), std::byte{1});
  ASSERT_TRUE(driver.unregister_host(host.pages(0, 2).data()));
}

// One stream fills device memory, another copies it out: right only with an event between.
int n_wrong_copies(bool with_event, double eagerness) {
  int n_wrong = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FakeDriver driver({.seed = seed, .eagerness = eagerness});
    add_fill_kernel(driver);
    const auto memory = DeviceMemory::allocate(driver, 64);
    const auto filler = Stream::create(driver);
    const auto copier = Stream::create(driver);
    const auto filled = Event::create(driver);
    std::vector<int> out(16, -1);
    EXPECT_TRUE(driver.launch({.kernel = "fill"}, {memory->bytes().as<int>(), 7}, filler->id()));
    EXPECT_TRUE(driver.record(filled->id(), filler->id()));
    if (with_event) {
      EXPECT_TRUE(driver.wait(copier->id(), filled->id()));
    }
    EXPECT_TRUE(driver.copy_to_host(bytes_of(out), memory->bytes(), copier->id()));
    EXPECT_TRUE(driver.synchronise(copier->id()));
    n_wrong += out == std::vector<int>(16, 7) ? 0 : 1;
    EXPECT_TRUE(driver.synchronise(filler->id()));
  }
  return n_wrong;
}

TEST(FakeDriver, AMissingEventShowsAsWrongData) {
  for (const double eagerness : {0.0, FakeDriverOptions().eagerness}) {
    EXPECT_EQ(n_wrong_copies(/*with_event=*/true, eagerness), 0) << eagerness;
    EXPECT_GT(n_wrong_copies(/*with_event=*/false, eagerness), 20) << eagerness;
  }
}

TEST(FakeDriver, TwoStreamsTakeTurnsEitherWay) {
  int n_first_is_first = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FakeDriver driver({.seed = seed, .eagerness = 0});
    std::string ran;
    driver.add_kernel("note", [&](const FakeKernelCall& call) { ran += call.value<char>(0); });
    const auto first = Stream::create(driver);
    const auto second = Stream::create(driver);
    const auto last = Stream::create(driver);
    const auto both = Event::create(driver);
    ASSERT_TRUE(driver.launch({.kernel = "note"}, {'1'}, first->id()));
    ASSERT_TRUE(driver.launch({.kernel = "note"}, {'2'}, second->id()));
    for (const Stream* stream : {&*first, &*second}) {
      ASSERT_TRUE(driver.record(both->id(), stream->id()));
      ASSERT_TRUE(driver.wait(last->id(), both->id()));
    }
    ASSERT_TRUE(driver.synchronise(last->id()));
    ASSERT_EQ(ran.size(), 2u);
    n_first_is_first += ran == "12" ? 1 : 0;
  }
  EXPECT_GT(n_first_is_first, 40);
  EXPECT_LT(n_first_is_first, 160);
}

// A host buffer is read when the copy runs: whoever fills it again too early sends the new content.
TEST(FakeDriver, ABufferThatIsReusedTooEarlyShowsAsWrongData) {
  int n_wrong = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    FakeDriver driver({.seed = seed});
    const Pages host(1);
    ASSERT_TRUE(driver.register_host(host.pages(0, 1)));
    {
      const auto memory = DeviceMemory::allocate(driver, kFakeOsPageBytes);
      const auto stream = Stream::create(driver);
      std::vector<std::byte> out(kFakeOsPageBytes);
      std::ranges::fill(host.pages(0, 1), std::byte{1});
      ASSERT_TRUE(driver.copy_to_device(memory->bytes(), host.pages(0, 1), stream->id()));
      std::ranges::fill(host.pages(0, 1), std::byte{2});
      ASSERT_TRUE(driver.copy_to_host(out, memory->bytes(), stream->id()));
      ASSERT_TRUE(driver.synchronise(stream->id()));
      n_wrong += out[0] == std::byte{2} ? 1 : 0;
    }
    ASSERT_TRUE(driver.unregister_host(host.pages(0, 1).data()));
  }
  EXPECT_GT(n_wrong, 20);
  EXPECT_LT(n_wrong, 100);
}

TEST(FakeDriver, AnEventThatWasNeverRecordedHoldsNobodyUp) {
  FakeDriver driver({.eagerness = 0});
  const auto stream = Stream::create(driver);
  const auto event = Event::create(driver);
  EXPECT_TRUE(*driver.has_happened(event->id()));
  EXPECT_TRUE(driver.wait(stream->id(), event->id()));
  EXPECT_TRUE(driver.synchronise(event->id()));
  EXPECT_TRUE(driver.synchronise(stream->id()));
  ASSERT_TRUE(driver.record(event->id(), stream->id()));
  int n_asked = 0;
  while (!*driver.has_happened(event->id())) ASSERT_LT(++n_asked, 100);
}

// Random programs of launches, records and waits, against the rules themselves: each launch leaves
// its number, and of every two that the rules order, the earlier must come first.
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, double eagerness)
      : random_(seed), driver_({.seed = seed, .eagerness = eagerness}) {
    driver_.add_kernel("note",
                       [this](const FakeKernelCall& call) { ran_.push_back(call.value<int>(0)); });
    for (int i = 0; i < 3; ++i) streams_.push_back(*Stream::create(driver_));
    for (int i = 0; i < 2; ++i) events_.push_back(*Event::create(driver_));
    before_stream_.resize(streams_.size());
    before_event_.resize(events_.size());
  }

  void run(int n_steps) {
    for (int i = 0; i < n_steps; ++i) step();
    for (const Stream& stream : streams_) EXPECT_TRUE(driver_.synchronise(stream.id()));
  }

  void check() const {
    ASSERT_EQ(ran_.size(), before_launch_.size());
    std::set<int> done;
    for (const int launch : ran_) {
      for (const int earlier : before_launch_[static_cast<size_t>(launch)]) {
        ASSERT_TRUE(done.contains(earlier)) << earlier << " after " << launch;
      }
      ASSERT_TRUE(done.insert(launch).second);
    }
  }
  const std::vector<int>& ran() const { return ran_; }

 private:
  using Launches = std::set<int>;

  void step() {
    const size_t s = random_() % streams_.size();
    const size_t e = random_() % events_.size();
    const StreamId stream = streams_[s].id();
    const EventId event = events_[e].id();
    switch (random_() % 8) {
      case 0:
        ASSERT_TRUE(driver_.record(event, stream));
        before_event_[e] = before_stream_[s];
        break;
      case 1:
        ASSERT_TRUE(driver_.wait(stream, event));
        before_stream_[s].insert(before_event_[e].begin(), before_event_[e].end());
        break;
      case 2:
        ASSERT_TRUE(driver_.synchronise(event));
        for (const int launch : before_event_[e]) EXPECT_NE(std::ranges::count(ran_, launch), 0);
        break;
      default: {
        const int launch = static_cast<int>(before_launch_.size());
        before_launch_.push_back(before_stream_[s]);
        ASSERT_TRUE(driver_.launch({.kernel = "note"}, {launch}, stream));
        before_stream_[s].insert(launch);
      }
    }
  }

  std::mt19937_64 random_;
  FakeDriver driver_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Launches> before_stream_;  // what the next work of a stream comes after
  std::vector<Launches> before_event_;   // what an event's last record comes after
  std::vector<Launches> before_launch_;
  std::vector<int> ran_;
};

TEST(FakeDriver, RandomProgramsRunInOrdersThatTheirEventsAllow) {
  int n_in_order = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed, /*eagerness=*/static_cast<double>(seed % 4) * 0.15);
    program.run(/*n_steps=*/40);
    program.check();
    n_in_order += std::ranges::is_sorted(program.ran()) ? 1 : 0;
  }
  EXPECT_LT(n_in_order, 60);  // of 300: or the fake is no help
}

TEST(FakePins, AnOsPageIsRegisteredOnce) {
  FakeDriver driver;
  const Pages host(4);
  ASSERT_TRUE(driver.register_host(host.pages(1, 2)));
  EXPECT_EQ(driver.registered_bytes(), 2 * kFakeOsPageBytes);
  for (const auto range : {host.pages(1, 2), host.pages(0, 2), host.pages(2, 1), host.pages(0, 4),
                           host.pages(2, 1).subspan(100, 1)}) {
    const auto refused = settled(driver, driver.register_host(range));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  }
  ASSERT_TRUE(driver.register_host(host.pages(0, 1)));
  ASSERT_TRUE(driver.register_host(host.pages(3, 1).first(1)));
  EXPECT_EQ(driver.registered_bytes(), 4 * kFakeOsPageBytes);
  EXPECT_TRUE(driver.is_registered(host.pages(1, 2)));
  EXPECT_FALSE(driver.is_registered(host.pages(0, 2)));

  EXPECT_FALSE(settled(driver, driver.unregister_host(host.pages(2, 1).data())));
  for (const size_t begin : {0, 1, 3}) {
    EXPECT_TRUE(driver.unregister_host(host.pages(begin, 1).data()));
  }
  EXPECT_EQ(driver.registered_bytes(), 0u);
}

TEST(FakePins, NoCopyReachesOverTheEdgeOfARegisteredRange) {
  FakeDriver driver;
  const Pages host(4);
  ASSERT_TRUE(driver.register_host(host.pages(0, 1)));
  ASSERT_TRUE(driver.register_host(host.pages(1, 1)));
  {
    const auto memory = DeviceMemory::allocate(driver, 4 * kFakeOsPageBytes);
    const auto stream = Stream::create(driver);
    const auto copy = [&](std::span<std::byte> range) {
      const auto part = memory->bytes().subspan(0, range.size());
      return settled(driver, driver.copy_to_device(part, range, stream->id())) &&
             settled(driver, driver.copy_to_host(range, part, stream->id()));
    };
    EXPECT_TRUE(copy(host.pages(0, 1)));
    EXPECT_TRUE(copy(host.pages(2, 2)));
    EXPECT_FALSE(copy(host.pages(0, 2)));
    EXPECT_FALSE(copy(host.pages(1, 2)));
  }
  EXPECT_TRUE(driver.unregister_host(host.pages(1, 1).data()));
  EXPECT_TRUE(driver.unregister_host(host.pages(0, 1).data()));
}

// How many of single pages, asked for one after the other, are granted: a digit for each.
std::string granted_pages(FakeDriver& driver, const Pages& host, size_t n) {
  std::string granted;
  for (size_t i = 0; i < n; ++i) {
    granted += settled(driver, driver.register_host(host.pages(i, 1))) ? '1' : '0';
  }
  return granted;
}

void give_back(FakeDriver& driver) {
  for (const PinCall& call : driver.pin_calls()) {
    if (!call.is_register || !call.was_granted) continue;
    EXPECT_TRUE(driver.unregister_host(call.begin));
  }
}

TEST(FakePins, TheQuotaIsAsScripted) {
  const Pages host(8);
  constexpr size_t kPage = kFakeOsPageBytes;
  {
    FakeDriver driver({.pins = {.call_bytes = kPage}});
    EXPECT_FALSE(settled(driver, driver.register_host(host.pages(0, 2))));
    EXPECT_EQ(granted_pages(driver, host, 3), "111");
    give_back(driver);
  }
  for (const bool is_sticky : {false, true}) {
    FakeDriver driver({.pins = {.total_bytes = 3 * kPage, .is_sticky = is_sticky}});
    EXPECT_EQ(granted_pages(driver, host, 2), "11");
    EXPECT_FALSE(settled(driver, driver.register_host(host.pages(2, 2))));
    EXPECT_EQ(bool(settled(driver, driver.register_host(host.pages(2, 1)))), !is_sticky);
    give_back(driver);
  }
  {
    FakeDriver driver({.pins = {.total_bytes = 6 * kPage, .lost_bytes_per_call = kPage}});
    EXPECT_EQ(granted_pages(driver, host, 5), "11100");
    driver.set_pin_total(100 * kPage);
    EXPECT_TRUE(driver.register_host(host.pages(5, 1)));
    give_back(driver);
  }
}

TEST(FakePins, TheQuotaIsSharedWithWhatElseTheContextTakes) {
  const Pages host(8);
  constexpr size_t kPage = kFakeOsPageBytes;
  FakeDriver driver({.pins = {.total_bytes = 5 * kPage},
                     .context_bytes = kPage,
                     .device_memory_is_pooled = true});
  {
    const auto memory = DeviceMemory::allocate(driver, 2 * kPage);
    ASSERT_TRUE(memory);
    EXPECT_EQ(granted_pages(driver, host, 3), "110");
    EXPECT_FALSE(DeviceMemory::allocate(driver, 1));
  }
  EXPECT_TRUE(driver.register_host(host.pages(2, 2)));
  give_back(driver);
}

// Everything that a caller does with a driver, each object given back by itself.
Result<void> use_everything(FakeDriver& driver, const Pages& host) {
  PENSTOCK_TRY(settled(driver, driver.memory_info()));
  PENSTOCK_ASSIGN(const auto memory, DeviceMemory::allocate(driver, 64));
  PENSTOCK_ASSIGN(const auto stream, Stream::create(driver));
  PENSTOCK_ASSIGN(const auto event, Event::create(driver));
  PENSTOCK_TRY(settled(driver, driver.register_host(host.pages(0, 1))));
  const auto use = [&]() -> Result<void> {
    const auto part = host.pages(0, 1).first(64);
    PENSTOCK_TRY(settled(driver, driver.device_view(part)));
    PENSTOCK_TRY(settled(driver, driver.copy_to_device(memory.bytes(), part, stream.id())));
    PENSTOCK_ASSIGN(const Graph graph, Graph::record(driver, stream.id(), [&] {
                      return settled(
                          driver, driver.launch({.kernel = "fill"}, {memory.bytes().as<int>(), 1},
                                                stream.id()));
                    }));
    PENSTOCK_TRY(graph.launch(stream.id()));
    PENSTOCK_TRY(settled(driver, driver.copy_to_host(part, memory.bytes(), stream.id())));
    PENSTOCK_TRY(settled(driver, driver.record(event.id(), stream.id())));
    PENSTOCK_TRY(settled(driver, driver.wait(stream.id(), event.id())));
    PENSTOCK_TRY(settled(driver, driver.has_happened(event.id())));
    return settled(driver, driver.synchronise(event.id()));
  };
  auto used = use();
  // Before anything is given back, and also where the one refused call was this one.
  auto finished = settled(driver, driver.synchronise(stream.id()));
  if (!finished) {
    EXPECT_TRUE(driver.synchronise(stream.id()));
  }
  auto unregistered = settled(driver, driver.unregister_host(host.pages(0, 1).data()));
  return !used ? used : !finished ? finished : unregistered;
}

TEST(FakeDriver, EveryCallCanBeRefusedAndNothingIsLeft) {
  const Pages host(1);
  {
    FakeDriver driver;
    add_fill_kernel(driver);
    ASSERT_TRUE(use_everything(driver, host));
    for (size_t call = 0; call < kDriverCallCount; ++call) {
      EXPECT_EQ(driver.n_calls(static_cast<DriverCall>(call)), 1) << call;
    }
  }
  // The destructors' calls, which only the log tells of.
  const std::set<DriverCall> void_calls = {DriverCall::kFree, DriverCall::kDestroyStream,
                                           DriverCall::kDestroyEvent, DriverCall::kDestroyGraph};
  for (size_t call = 0; call < kDriverCallCount; ++call) {
    SCOPED_TRACE(call);
    const auto refused = static_cast<DriverCall>(call);
    FakeDriver driver({.refusals = {{.call = refused}}});
    add_fill_kernel(driver);
    EXPECT_EQ(bool(use_everything(driver, host)), void_calls.contains(refused));
    EXPECT_FALSE(driver.take_pending_error());
  }
}

TEST(FakeDriver, RefusalsCountCallsOfTheirKind) {
  FakeDriver driver(
      {.refusals = {{.call = DriverCall::kMemoryInfo, .first = 2, .count = 2},
                    {.call = DriverCall::kAllocate, .count = FakeRefusal::kForGood}}});
  std::string granted;
  for (int i = 0; i < 5; ++i) granted += settled(driver, driver.memory_info()) ? '1' : '0';
  EXPECT_EQ(granted, "10011");
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(DeviceMemory::allocate(driver, 1));
}

TEST(FakeDriver, AnErrorStaysPendingUntilItIsTaken) {
  FakeDriver driver({.refusals = {{.call = DriverCall::kAllocate}}});
  EXPECT_FALSE(driver.allocate(1));
  for (int i = 0; i < 2; ++i) {
    const auto unrelated = driver.memory_info();
    ASSERT_FALSE(unrelated);
    EXPECT_EQ(unrelated.error().message,
              "left pending by an earlier call: allocate is refused, as the script says");
  }
  // It is this thread's alone.
  std::thread([&] {
    EXPECT_TRUE(driver.memory_info());
    EXPECT_FALSE(driver.take_pending_error());
  }).join();
  EXPECT_TRUE(driver.take_pending_error());
  EXPECT_FALSE(driver.take_pending_error());
  EXPECT_TRUE(driver.memory_info());
}

TEST(FakeDriver, SomeDriversLeaveNoErrorPending) {
  FakeDriver driver({.leaves_errors_pending = false, .refusals = {{}}});
  EXPECT_FALSE(driver.memory_info());
  EXPECT_TRUE(driver.memory_info());
}

TEST(FakeDriverDeathTest, WhatIsNotGivenBackStopsTheProgram) {
  const Pages host(1);
  EXPECT_DEATH({ (void)FakeDriver().register_host(host.pages(0, 1)); }, "still registered");
  EXPECT_DEATH({ (void)FakeDriver().allocate(1); }, "was not freed");
  EXPECT_DEATH({ (void)FakeDriver().create_stream(); }, "stream was not destroyed");
  EXPECT_DEATH({ (void)FakeDriver().create_event(); }, "event was not destroyed");
  EXPECT_DEATH({ (void)FakeDriver().allocate(0); }, "left pending");
}

TEST(FakeDriverDeathTest, MemoryThatQueuedWorkUsesIsNotGivenBack) {
  EXPECT_DEATH(
      {
        FakeDriver driver({.eagerness = 0});
        add_fill_kernel(driver);
        const auto stream = Stream::create(driver);
        const auto memory = DeviceMemory::allocate(driver, 64);
        (void)driver.launch({.kernel = "fill"}, {memory->bytes().as<int>(), 1}, stream->id());
      },
      "freed that queued work uses");
  EXPECT_DEATH(
      {
        FakeDriver driver({.eagerness = 0});
        const Pages host(1);
        const auto memory = DeviceMemory::allocate(driver, kFakeOsPageBytes);
        const auto stream = Stream::create(driver);
        (void)driver.register_host(host.pages(0, 1));
        (void)driver.copy_to_device(memory->bytes(), host.pages(0, 1), stream->id());
        (void)driver.unregister_host(host.pages(0, 1).data());
      },
      "unregistered that queued work uses");
}

TEST(FakeDriverDeathTest, AKernelThatTakesItsArgumentsForOthersStopsTheProgram) {
  const auto launch = [](FakeKernel kernel) {
    FakeDriver driver;
    driver.add_kernel("wrong", std::move(kernel));
    const auto memory = DeviceMemory::allocate(driver, 64);
    const auto stream = Stream::create(driver);
    const ConstDeviceBytes bytes = memory->bytes();
    (void)driver.launch({.kernel = "wrong"}, {bytes, 1}, stream->id());
    (void)driver.synchronise(stream->id());
  };
  EXPECT_DEATH(launch([](const auto& call) { call.template span<std::byte>(0); }), "read only");
  EXPECT_DEATH(launch([](const auto& call) { call.template span<const int>(0); }), "another type");
  EXPECT_DEATH(launch([](const auto& call) { call.template span<const int>(1); }), "no span");
  EXPECT_DEATH(launch([](const auto& call) { (void)call.template value<char>(1); }),
               "another type");
}

}  // namespace
}  // namespace penstock
