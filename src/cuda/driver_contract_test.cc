// What cuda/driver.h promises, of every driver: the fake one, and NVIDIA's where there is a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "cuda/device_objects.h"
#include "cuda/fake_driver.h"
#include "cuda/nvidia_driver.h"

namespace penstock {
namespace {

// fill(int* to, int value): to[i] = value for each thread i.
constexpr char kFillPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 to, .param .u32 value) {
  .reg .u32 %r<5>;
  .reg .u64 %d<4>;
  ld.param.u64 %d1, [to];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  mul.wide.u32 %d2, %r2, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r1;
  ret;
}
)";

Result<std::unique_ptr<Driver>> fake_driver() {
  auto driver = std::make_unique<FakeDriver>();
  driver->add_kernel("fill", [](const FakeKernelCall& call) {
    std::ranges::fill(call.span<int>(0), call.value<int>(1));
  });
  return driver;
}

Result<std::unique_ptr<Driver>> nvidia_driver() {
  PENSTOCK_ASSIGN(const auto library, CudaLibrary::load());
  PENSTOCK_ASSIGN(const std::vector<CudaDevice> devices, library->devices());
  PENSTOCK_ASSIGN(const CudaDevice device, choose_device(devices, ""));
  PENSTOCK_ASSIGN(auto driver, NvidiaDriver::open(library, device, Log::to_stderr()));
  PENSTOCK_TRY(driver->load_module(std::as_bytes(std::span(kFillPtx))));
  return driver;
}

using MakeDriver = Result<std::unique_ptr<Driver>> (*)();

class DriverContract : public testing::TestWithParam<MakeDriver> {
 protected:
  void SetUp() override {
    auto made = GetParam()();
    if (!made) GTEST_SKIP() << made.error().text();
    driver_ = std::move(*made);
  }
  Driver& driver() { return *driver_; }

  Result<void> fill(DeviceBytes memory, int value, StreamId stream) {
    const auto ints = memory.as<int>();
    constexpr uint32_t kThreads = 256;
    PENSTOCK_CHECK(ints.size() % kThreads == 0, "whole thread blocks");
    return settled(driver(),
                   driver().launch({.kernel = "fill",
                                    .grid = {static_cast<uint32_t>(ints.size()) / kThreads},
                                    .thread_block = {kThreads}},
                                   {ints, value}, stream));
  }

 private:
  std::unique_ptr<Driver> driver_;
};

INSTANTIATE_TEST_SUITE_P(Fake, DriverContract, testing::Values(&fake_driver));
INSTANTIATE_TEST_SUITE_P(Nvidia, DriverContract, testing::Values(&nvidia_driver));

constexpr size_t kPage = 64 * kKiB;  // a whole number of OS pages anywhere

// Host memory that begins with an OS page.
class Pages {
 public:
  explicit Pages(size_t n) : storage_((n + 1) * kPage) {
    const size_t skip = kPage - reinterpret_cast<uintptr_t>(storage_.data()) % kPage;
    bytes_ = std::span(storage_).subspan(skip, n * kPage);
  }
  std::span<std::byte> all() const { return bytes_; }
  std::span<std::byte> page(size_t i) const { return bytes_.subspan(i * kPage, kPage); }

 private:
  std::vector<std::byte> storage_;
  std::span<std::byte> bytes_;
};

void count_up(std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
}

TEST_P(DriverContract, CopiesThereAndBackAreTheSameFromAnyHostMemory) {
  for (const bool is_registered : {false, true}) {
    const Pages from(3), to(3);
    count_up(from.all());
    if (is_registered) {
      ASSERT_TRUE(driver().register_host(from.all()));
      ASSERT_TRUE(driver().register_host(to.all()));
    }
    {
      const auto memory = DeviceMemory::allocate(driver(), from.all().size());
      const auto stream = Stream::create(driver());
      ASSERT_TRUE(memory && stream);
      EXPECT_EQ(static_cast<uint64_t>(memory->bytes().address()) % kDeviceAlignment, 0u);
      ASSERT_TRUE(driver().copy_to_device(memory->bytes(), from.all(), stream->id()));
      ASSERT_TRUE(driver().copy_to_host(to.all(), memory->bytes(), stream->id()));
      ASSERT_TRUE(driver().synchronise(stream->id()));
      EXPECT_TRUE(std::ranges::equal(from.all(), to.all()));
      // A part of it, into the middle.
      ASSERT_TRUE(
          driver().copy_to_host(to.page(2), memory->bytes().subspan(kPage, kPage), stream->id()));
      ASSERT_TRUE(driver().synchronise(stream->id()));
      EXPECT_TRUE(std::ranges::equal(from.page(1), to.page(2)));
    }
    if (is_registered) {
      ASSERT_TRUE(driver().unregister_host(from.all().data()));
      ASSERT_TRUE(driver().unregister_host(to.all().data()));
    }
  }
}

TEST_P(DriverContract, MoreMemoryThanThereIsIsRefusedAndNothingElse) {
  const auto info = driver().memory_info();
  ASSERT_TRUE(info);
  EXPECT_GT(info->free_bytes, 0u);
  EXPECT_LE(info->free_bytes, info->total_bytes);
  const auto refused = DeviceMemory::allocate(driver(), info->total_bytes + kGiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted) << refused.error().text();
  EXPECT_FALSE(driver().take_pending_error());
  EXPECT_TRUE(DeviceMemory::allocate(driver(), kMiB));
}

TEST_P(DriverContract, APageIsRegisteredOnce) {
  const Pages host(3);
  ASSERT_TRUE(driver().register_host(host.all().first(2 * kPage)));
  const auto again = settled(driver(), driver().register_host(host.page(1)));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::kInvalidArgument) << again.error().text();
  EXPECT_FALSE(settled(driver(), driver().unregister_host(host.page(2).data())));
  ASSERT_TRUE(driver().unregister_host(host.all().data()));
  ASSERT_TRUE(driver().register_host(host.page(1)));
  ASSERT_TRUE(driver().unregister_host(host.page(1).data()));
}

TEST_P(DriverContract, AKernelWritesRegisteredHostMemory) {
  const Pages host(2);
  std::ranges::fill(host.all(), std::byte{1});
  EXPECT_FALSE(settled(driver(), driver().device_view(host.page(0))));
  ASSERT_TRUE(driver().register_host(host.all()));
  const auto view = driver().device_view(host.page(1));
  ASSERT_TRUE(view) << view.error().text();
  {
    const auto stream = Stream::create(driver());
    ASSERT_TRUE(fill(*view, 0x02020202, stream->id()));
    ASSERT_TRUE(driver().synchronise(stream->id()));
  }
  EXPECT_THAT(host.page(0), testing::Each(std::byte{1}));
  EXPECT_THAT(host.page(1), testing::Each(std::byte{2}));
  ASSERT_TRUE(driver().unregister_host(host.all().data()));
}

TEST_P(DriverContract, AnEventOrdersTwoStreams) {
  constexpr size_t kBytes = 32 * kMiB;
  const auto memory = DeviceMemory::allocate(driver(), kBytes);
  const auto filler = Stream::create(driver());
  const auto copier = Stream::create(driver());
  const auto filled = Event::create(driver());
  const auto copied = Event::create(driver());
  ASSERT_TRUE(memory && filler && copier && filled && copied);
  EXPECT_TRUE(driver().wait(copier->id(), filled->id()));  // never recorded: nothing to wait for
  std::vector<int> out(kPage / sizeof(int));
  for (int round = 1; round <= 20; ++round) {
    ASSERT_TRUE(fill(memory->bytes(), round, filler->id()));
    ASSERT_TRUE(driver().record(filled->id(), filler->id()));
    ASSERT_TRUE(driver().wait(copier->id(), filled->id()));
    ASSERT_TRUE(driver().copy_to_host(std::as_writable_bytes(std::span(out)),
                                      memory->bytes().subspan(kBytes - kPage, kPage),
                                      copier->id()));
    ASSERT_TRUE(driver().record(copied->id(), copier->id()));
    ASSERT_TRUE(driver().wait(filler->id(), copied->id()));
    ASSERT_TRUE(driver().synchronise(copied->id()));
    EXPECT_TRUE(driver().has_happened(copied->id()).value());
    ASSERT_THAT(out, testing::Each(round));
  }
}

TEST_P(DriverContract, AGraphRunsAgainAndAgainWithWhatItsMemoryHoldsThen) {
  const Pages from(1), to(1);
  ASSERT_TRUE(driver().register_host(from.all()) && driver().register_host(to.all()));
  {
    const auto memory = DeviceMemory::allocate(driver(), 2 * kPage);
    const auto stream = Stream::create(driver());
    ASSERT_TRUE(memory && stream);
    const auto graph = Graph::record(driver(), stream->id(), [&]() -> Result<void> {
      PENSTOCK_TRY(
          driver().copy_to_device(memory->bytes().subspan(0, kPage), from.all(), stream->id()));
      PENSTOCK_TRY(fill(memory->bytes().subspan(0, kPage / 2), 0x05050505, stream->id()));
      return driver().copy_to_host(to.all(), memory->bytes().subspan(0, kPage), stream->id());
    });
    ASSERT_TRUE(graph) << graph.error().text();
    for (const int round : {1, 2, 3}) {
      std::ranges::fill(from.all(), std::byte(round));
      std::ranges::fill(to.all(), std::byte{9});
      ASSERT_TRUE(graph->launch(stream->id()));
      ASSERT_TRUE(driver().synchronise(stream->id()));
      EXPECT_THAT(to.all().first(kPage / 2), testing::Each(std::byte{5}));
      EXPECT_THAT(to.all().subspan(kPage / 2), testing::Each(std::byte(round)));
    }
    const auto failed = Graph::record(driver(), stream->id(), [&]() -> Result<void> {
      return fail(ErrorKind::kInternal, "the caller's own");
    });
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "the caller's own");
    EXPECT_TRUE(fill(memory->bytes(), 1, stream->id()));
    EXPECT_TRUE(driver().synchronise(stream->id()));
  }
  ASSERT_TRUE(driver().unregister_host(from.all().data()));
  ASSERT_TRUE(driver().unregister_host(to.all().data()));
}

TEST_P(DriverContract, AKernelThatIsNotThereIsRefusedAndNothingElse) {
  const auto memory = DeviceMemory::allocate(driver(), kPage);
  const auto stream = Stream::create(driver());
  const auto refused =
      settled(driver(), driver().launch({.kernel = "absent"}, {memory->bytes()}, stream->id()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kNotFound) << refused.error().text();
  EXPECT_FALSE(settled(driver(), driver().launch({.kernel = "fill", .thread_block = {2048}},
                                                 {memory->bytes().as<int>(), 1}, stream->id())));
  EXPECT_TRUE(fill(memory->bytes(), 1, stream->id()));
  EXPECT_TRUE(driver().synchronise(stream->id()));
}

TEST(CudaLibrary, IsThereOrSaysWhyNot) {
  const auto library = CudaLibrary::load();
  if (!library) {
    EXPECT_FALSE(library.error().text().empty());
    return;
  }
  const auto devices = (*library)->devices();
  ASSERT_TRUE(devices) << devices.error().text();
  for (const CudaDevice& device : *devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_THAT(device.uuid, testing::MatchesRegex("GPU-[0-9a-f-]+"));
    EXPECT_EQ(device.uuid.size(), 40u);
    EXPECT_GE(device.compute_major, 3);
    EXPECT_GT(device.vram_bytes, kGiB);
    EXPECT_EQ(choose_device(*devices, device.uuid)->ordinal, device.ordinal);
  }
}

TEST(ChooseDevice, ByOrdinalByUuidOrTheFirst) {
  const std::vector<CudaDevice> devices = {{.ordinal = 0, .name = "A", .uuid = "GPU-12ab"},
                                           {.ordinal = 1, .name = "B", .uuid = "GPU-12cd"}};
  EXPECT_EQ(choose_device(devices, "")->name, "A");
  EXPECT_EQ(choose_device(devices, "1")->name, "B");
  EXPECT_EQ(choose_device(devices, "GPU-12c")->name, "B");
  EXPECT_EQ(choose_device(devices, "GPU-12").error().message,
            "GPU 'GPU-12' is more than one; there are: 0 A (GPU-12ab), 1 B (GPU-12cd)");
  EXPECT_EQ(choose_device(devices, "2").error().message,
            "GPU '2' is not there; there are: 0 A (GPU-12ab), 1 B (GPU-12cd)");
  EXPECT_EQ(choose_device({}, "0").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace penstock
