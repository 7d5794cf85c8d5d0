// Every GPU kernel against its scalar reference: the same launch on a real GPU and on the fake
// driver. And what the class `gpu` promises: a row's bits depend on nothing beside it.
#include "kernels/gpu/gpu_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/integers.h"
#include "cuda/device_objects.h"
#include "kernels/attention/attention_gpu.h"
#include "kernels/gpu/gpu_modules.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/matmul/experts_gpu.h"
#include "kernels/matmul/matmul_gpu.h"
#include "kernels/matmul/random_matrix.h"
#include "kernels/random_floats.h"
#include "kernels/rms_norm/rms_norm_gpu.h"
#include "kernels/router/router_gpu.h"
#include "kernels/swiglu/swiglu_gpu.h"
#include "os/memory.h"

namespace penstock {
namespace {

// A driver and the memory that a test takes of it. A call that fails fails the test.
class Gpu {
 public:
  explicit Gpu(std::shared_ptr<Driver> driver)
      : driver_(std::move(driver)), stream_(Stream::create(*driver_).value()) {}

  GpuQueue queue() const { return {driver_.get(), stream_.id()}; }

  template <class T>
  DeviceSpan<T> make(size_t n) {
    memory_.push_back(DeviceMemory::allocate(*driver_, n * sizeof(T) + 256).value());
    return memory_.back().bytes().subspan(0, n * sizeof(T)).template as<T>();
  }
  template <class T>
  DeviceSpan<T> upload(const std::vector<T>& values) {
    if (values.empty()) return {};
    const DeviceSpan<T> to = make<T>(values.size());
    EXPECT_TRUE(driver_->copy_to_device(to.template as<std::byte>(),
                                        std::as_bytes(std::span(values)), stream_.id()));
    EXPECT_TRUE(driver_->synchronise(stream_.id()));
    return to;
  }
  template <class T>
  std::vector<std::remove_const_t<T>> download(DeviceSpan<T> from) {
    std::vector<std::remove_const_t<T>> values(from.size());
    EXPECT_TRUE(driver_->copy_to_host(std::as_writable_bytes(std::span(values)),
                                      from.template as<const std::byte>(), stream_.id()));
    const auto done = driver_->synchronise(stream_.id());
    EXPECT_TRUE(done) << done.error().text();
    return values;
  }
  GpuMatrix upload(const MatrixView& matrix) {
    const std::vector<std::byte> data(matrix.data.begin(), matrix.data.end());
    const std::vector<std::byte> scales(matrix.scales.begin(), matrix.scales.end());
    return {.format = matrix.format,
            .data = upload(data),
            .scales = upload(scales),
            .shape = gpu_shape(matrix)};
  }

 private:
  std::shared_ptr<Driver> driver_;
  Stream stream_;
  std::vector<DeviceMemory> memory_;
};

class GpuKernelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto open = []() -> Result<std::shared_ptr<Driver>> {
      PENSTOCK_ASSIGN(auto library, CudaLibrary::load());
      PENSTOCK_ASSIGN(const std::vector<CudaDevice> devices, library->devices());
      PENSTOCK_ASSIGN(const CudaDevice device, choose_device(devices, ""));
      PENSTOCK_ASSIGN(auto driver, NvidiaDriver::open(library, device, Log::to_stderr()));
      PENSTOCK_TRY(load_gpu_kernels(*driver));
      return std::shared_ptr<Driver>(std::move(driver));
    };
    driver_ = open();
  }
  static void TearDownTestSuite() { driver_ = std::unexpected(Error{}); }
  void SetUp() override {
    if (!driver_) GTEST_SKIP() << driver_.error().text();
  }
  static std::shared_ptr<Driver> real() { return *driver_; }
  static std::shared_ptr<Driver> fake() {
    auto driver = std::make_shared<FakeDriver>();
    add_gpu_stand_ins(*driver);
    return driver;
  }

  // What `run` makes of the same inputs on both.
  template <class Run>
  static auto both(Run run) {
    Gpu on_real(real());
    Gpu on_fake(fake());
    return std::pair{run(on_real), run(on_fake)};
  }

 private:
  static inline Result<std::shared_ptr<Driver>> driver_ = std::unexpected(Error{});
};

std::vector<uint16_t> random_bf16(size_t n, uint32_t seed) {
  std::vector<uint16_t> bits;
  for (const float value : random_floats(static_cast<int64_t>(n), seed)) {
    bits.push_back(f32_to_bf16(value));
  }
  return bits;
}

// Each number differs by at most `bound` of the largest of its row.
void expect_near(std::span<const float> found, std::span<const float> expected, size_t cols,
                 double bound, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t first = 0; first < found.size(); first += cols) {
    double largest = 0;
    double worst = 0;
    for (size_t i = first; i < std::min(first + cols, found.size()); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      const double difference = std::abs(static_cast<double>(found[i]) - expected[i]);
      worst = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(worst, difference);
    }
    ASSERT_LE(worst, bound * largest) << what << ", row " << first / cols;
  }
}

std::vector<float> floats_of(const std::vector<uint16_t>& bf16) {
  std::vector<float> values;
  for (const uint16_t bits : bf16) values.push_back(bf16_to_f32(bits));
  return values;
}

// Sums of so many float32 products in any order.
constexpr double kSumBound = 3e-5;
// And then one rounding to bf16, which may fall either way.
constexpr double kBf16Bound = 0.0079;

TEST(GpuModulesTest, EveryModuleHasAnImage) {
  for (const GpuModule& module : gpu_modules()) {
    EXPECT_GT(module.image.size(), 1000u) << module.name;
  }
}

class GpuMatmulTest : public GpuKernelTest, public testing::WithParamInterface<FormatCase> {};

struct Product {
  int64_t rows, cols, n_tokens;
  bool has_bias, adds;
};

std::vector<float> multiply(Gpu& gpu, const MatrixView& w, const Product& p, int64_t first = 0) {
  const int64_t stride = round_up(p.cols, 8) + 8;
  const auto x = random_bf16(static_cast<size_t>((first + p.n_tokens) * stride), 7);
  const std::vector<uint16_t> some(x.begin() + first * stride, x.end());
  const auto y = gpu.upload(random_floats(p.n_tokens * p.rows, 8));
  const auto bias = p.has_bias ? gpu.upload(random_floats(p.rows, 9)) : DeviceSpan<float>{};
  const auto done =
      gpu_matmul(gpu.queue(), gpu.upload(w), {gpu.upload(some), p.n_tokens, p.cols, stride}, bias,
                 {y, p.n_tokens, p.rows, p.rows}, p.adds);
  EXPECT_TRUE(done) << done.error().text();
  return gpu.download(y);
}

TEST_P(GpuMatmulTest, EqualsTheReference) {
  const int64_t group = info(GetParam().format).group;
  for (const int64_t cols : {group, 3 * group, 8 * group, round_up(int64_t{2048}, group) + group}) {
    for (const Product& p : {Product{3, cols, 1, false, false}, Product{7, cols, 3, true, true},
                             Product{40, cols, 8, true, false}, Product{200, cols, 9, false, true},
                             Product{33, cols, 70, true, true}}) {
      const RandomMatrix w(GetParam().format, p.rows, cols, Numbers::kModest, 5,
                           GetParam().scale_format, GetParam().group_cols);
      const auto [found, expected] = both([&](Gpu& gpu) { return multiply(gpu, w.view(), p); });
      expect_near(found, expected, static_cast<size_t>(p.rows), kSumBound,
                  fmt::format("{} x {} by {}", p.rows, cols, p.n_tokens));
    }
  }
}

TEST_P(GpuMatmulTest, ATokensBitsAreItsOwn) {
  const int64_t group = info(GetParam().format).group;
  // Few tokens of the longest rows do not all fit where they wait.
  for (const int64_t at_least : {100, 1024, 6000, 23000}) {
    const int64_t cols = round_up(at_least, group);
    const RandomMatrix w(GetParam().format, 20, cols, Numbers::kModest, 6, GetParam().scale_format,
                         GetParam().group_cols);
    Gpu gpu(real());
    const auto together = multiply(gpu, w.view(), {20, cols, 70, false, false});
    for (const int64_t n : {1, 3, 8}) {
      for (const int64_t t : {0, 8, 62}) {
        const auto few = multiply(gpu, w.view(), {20, cols, n, false, false}, t);
        EXPECT_TRUE(std::ranges::equal(
            few, std::span(together).subspan(static_cast<size_t>(t * 20), few.size())))
            << n << " tokens from " << t << ", " << cols << " columns";
      }
    }
  }
}

TEST_P(GpuMatmulTest, ANormAtOnceLeavesTheSameBits) {
  const int64_t group = info(GetParam().format).group;
  for (const int64_t at_least : {64, 2048, 7168}) {
    for (const int64_t n : {1, 2, 8}) {
      const int64_t cols = round_up(at_least, group);
      const RandomMatrix w(GetParam().format, 40, cols, Numbers::kModest, 6,
                           GetParam().scale_format, GetParam().group_cols);
      Gpu gpu(real());
      const GpuMatrix matrix = gpu.upload(w.view());
      if (!can_norm_at_once(matrix, n)) continue;
      const GpuNormed x = {{gpu.upload(random_floats(n * cols, 7, 3.0F)), n, cols, cols},
                           gpu.upload(random_floats(cols, 8)),
                           1e-5F};
      const GpuRows<uint16_t> h = {gpu.make<uint16_t>(static_cast<size_t>(n * cols)), n, cols,
                                   cols};
      const GpuRows<float> one = {gpu.make<float>(static_cast<size_t>(n * 40)), n, 40, 40};
      const GpuRows<float> other = {gpu.make<float>(static_cast<size_t>(n * 40)), n, 40, 40};
      const auto bias = gpu.upload(random_floats(40, 9));
      EXPECT_TRUE(gpu_norm_matmul(gpu.queue(), matrix, x, bias, one, /*adds=*/false));
      EXPECT_TRUE(gpu_rms_norm(gpu.queue(), x.x, {}, x.weight, x.eps, h, {}));
      EXPECT_TRUE(gpu_matmul(gpu.queue(), matrix, h, bias, other, /*adds=*/false));
      EXPECT_EQ(gpu.download(one.data), gpu.download(other.data)) << cols << " by " << n;
    }
  }
}

std::vector<FormatCase> gpu_format_cases() {
  std::vector<FormatCase> cases;
  for (const FormatCase& each : every_format_case()) {
    const uint32_t group_cols = each.group_cols != 0 ? each.group_cols : 32;
    if (gpu_format_name({.format = each.format, .group_cols = group_cols})) cases.push_back(each);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Formats, GpuMatmulTest, testing::ValuesIn(gpu_format_cases()),
                         [](const auto& test) {
                           std::string name = test.param.name();
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

// A layer of random experts in slots, and tokens that chose among them.
struct ExpertsCase {
  Format format;
  int64_t n_tokens;
  int n_experts = 9, top_k = 2;
  int64_t dim = 96, hidden = 256;
};

struct ExpertResults {
  std::vector<float> act, out, x;
};

ExpertResults run_experts(Gpu& gpu, const ExpertsCase& c) {
  std::vector<std::byte> pool;
  std::vector<int32_t> slots;
  std::vector<float> factors;
  GpuExperts experts = {.format = c.format, .down_format = c.format};
  for (int e = 0; e < c.n_experts; ++e) {
    std::vector<std::byte> slot;
    const auto place = [&](int64_t rows, int64_t cols, uint64_t seed, GpuExpertPart& part) {
      const RandomMatrix w(c.format, rows, cols, Numbers::kModest, seed, ScaleFormat::kF32, 32);
      const auto append = [&](std::span<const std::byte> bytes) {
        const auto at = static_cast<uint32_t>(slot.size());
        slot.insert(slot.end(), bytes.begin(), bytes.end());
        slot.resize(round_up(slot.size() + kGpuMatrixSlack, size_t{256}));
        return at;
      };
      part.data = append(w.view().data);
      part.scales = append(w.view().scales);
      factors.push_back(0.5F + static_cast<float>(seed % 7));
      return gpu_shape(w.view());
    };
    const auto seed = static_cast<uint64_t>(e) * 3;
    experts.gate_up_shape = place(c.dim, c.hidden, seed, experts.gate);
    place(c.dim, c.hidden, seed + 1, experts.up);
    experts.down_shape = place(c.hidden, c.dim, seed + 2, experts.down);
    experts.slot_bytes = slot.size();
    slots.push_back(c.n_experts - 1 - e);  // not in order
    pool.insert(pool.begin(), slot.begin(), slot.end());
  }
  experts.pool = gpu.upload(pool);
  experts.factors = gpu.upload(factors);

  std::mt19937 random(3);
  std::vector<int32_t> chosen;
  for (int64_t t = 0; t < c.n_tokens; ++t) {
    const auto first = static_cast<int>(random() % static_cast<unsigned>(c.n_experts));
    for (int k = 0; k < c.top_k; ++k) chosen.push_back((first + k * 2) % c.n_experts);
  }
  const auto n_rows = static_cast<size_t>(c.n_tokens * c.top_k);
  const GpuRouter router = {.n_experts = c.n_experts, .top_k = c.top_k};
  const auto groups = gpu.make<GpuExpertGroup>(static_cast<size_t>(c.n_experts));
  const auto n_groups = gpu.make<int32_t>(1);
  const auto row_of = gpu.make<int32_t>(n_rows);
  const auto token_of = gpu.make<int32_t>(n_rows);
  EXPECT_TRUE(gpu_router_group(gpu.queue(), router, c.n_tokens,
                               {.slots = gpu.upload(slots),
                                .experts = gpu.upload(chosen),
                                .groups = groups,
                                .n_groups = n_groups,
                                .row_of = row_of,
                                .token_of = token_of}));
  const GpuAssignments assignments = {
      .n_tokens = c.n_tokens,
      .top_k = c.top_k,
      .n_experts = c.n_experts,
      .groups = groups,
      .n_groups = n_groups,
      .row_of = row_of,
      .token_of = token_of,
      .weights = gpu.upload(random_floats(static_cast<int64_t>(n_rows), 4))};
  const auto x = gpu.upload(random_bf16(static_cast<size_t>(c.n_tokens * c.hidden), 5));
  const auto act = gpu.make<uint16_t>(n_rows * static_cast<size_t>(c.dim));
  const auto out = gpu.make<float>(n_rows * static_cast<size_t>(c.hidden));
  const auto stream = gpu.upload(random_floats(c.n_tokens * c.hidden, 6));
  const auto rows = static_cast<int64_t>(n_rows);
  EXPECT_TRUE(gpu_experts_gate_up(gpu.queue(), experts, assignments,
                                  {x, c.n_tokens, c.hidden, c.hidden}, {act, rows, c.dim, c.dim}));
  EXPECT_TRUE(gpu_experts_down(gpu.queue(), experts, assignments, {act, rows, c.dim, c.dim},
                               {out, rows, c.hidden, c.hidden}));
  EXPECT_TRUE(gpu_experts_combine(gpu.queue(), assignments, {out, rows, c.hidden, c.hidden},
                                  {stream, c.n_tokens, c.hidden, c.hidden}));
  // The same at once, where that can be: the same bits.
  if (can_combine_at_once(experts, assignments)) {
    const auto at_once = gpu.upload(random_floats(c.n_tokens * c.hidden, 6));
    EXPECT_TRUE(gpu_experts_down_combine(gpu.queue(), experts, assignments,
                                         {act, rows, c.dim, c.dim},
                                         {at_once, c.n_tokens, c.hidden, c.hidden}));
    EXPECT_EQ(gpu.download(at_once), gpu.download(stream));
  }
  // Where a token stands among its expert's rows is left open: by assignment.
  const auto by_assignment = [&](const std::vector<float>& grouped, int64_t cols) {
    const std::vector<int32_t> places = gpu.download(row_of);
    std::vector<float> ordered;
    for (const int32_t row : places) {
      const auto from =
          std::span(grouped).subspan(static_cast<size_t>(row * cols), static_cast<size_t>(cols));
      ordered.insert(ordered.end(), from.begin(), from.end());
    }
    return ordered;
  };
  return {by_assignment(floats_of(gpu.download(act)), c.dim),
          by_assignment(gpu.download(out), c.hidden), gpu.download(stream)};
}

TEST_F(GpuKernelTest, ExpertsEqualTheReference) {
  for (const FormatCase& each : gpu_format_cases()) {
    for (const int64_t n_tokens : {1, 6, 90}) {
      ExpertsCase c = {.format = each.format, .n_tokens = n_tokens};
      if (info(c.format).group > 32) c.dim = 256;
      SCOPED_TRACE(fmt::format("{}, {} tokens", each.name(), n_tokens));
      const auto [found, expected] = both([&](Gpu& gpu) { return run_experts(gpu, c); });
      expect_near(found.act, expected.act, static_cast<size_t>(c.dim), kBf16Bound, "act");
      // An activation that was rounded the other way moves every sum a little.
      expect_near(found.out, expected.out, static_cast<size_t>(c.hidden), kBf16Bound, "out");
      expect_near(found.x, expected.x, static_cast<size_t>(c.hidden), kBf16Bound, "x");
    }
  }
}

TEST_F(GpuKernelTest, NormsEqualTheReference) {
  for (const int64_t cols : {1, 31, 64, 2048, 5000}) {
    const auto run = [&](Gpu& gpu) {
      const auto x = gpu.upload(random_floats(9 * cols, 1));
      const auto y16 = gpu.make<uint16_t>(static_cast<size_t>(4 * cols));
      const auto y32 = gpu.make<float>(static_cast<size_t>(4 * cols));
      EXPECT_TRUE(gpu_rms_norm(
          gpu.queue(), {x, 9, cols, cols}, gpu.upload(std::vector<int32_t>{8, 0, 3, 3}),
          gpu.upload(random_floats(cols, 2)), 1e-5F, {y16, 4, cols, cols}, {y32, 4, cols, cols}));
      return std::pair{floats_of(gpu.download(y16)), gpu.download(y32)};
    };
    const auto [found, expected] = both(run);
    expect_near(found.first, expected.first, static_cast<size_t>(cols), kBf16Bound, "bf16");
    expect_near(found.second, expected.second, static_cast<size_t>(cols), 1e-6, "float32");
  }
}

TEST_F(GpuKernelTest, SwigluEqualsTheReference) {
  const auto run = [&](Gpu& gpu) {
    auto numbers = random_floats(3 * 600, 1, 8.0F);
    numbers[0] = 1e30F, numbers[1] = -1e30F, numbers[2] = 0;
    const auto gate_up = gpu.upload(numbers);
    const auto act = gpu.make<uint16_t>(3 * 300);
    EXPECT_TRUE(gpu_swiglu(gpu.queue(), {gate_up, 3, 300, 600},
                           {gate_up.subspan(300, 1500), 3, 300, 600}, {act, 3, 300, 300}));
    return floats_of(gpu.download(act));
  };
  const auto [found, expected] = both(run);
  expect_near(found, expected, 1, kBf16Bound, "swiglu");
}

TEST_F(GpuKernelTest, RoutersChooseAsTheReferenceDoes) {
  struct Case {
    GpuRouter router;
    bool has_bias;
  };
  for (const Case& c : {Case{{.n_experts = 8, .top_k = 2, .renormalize = 1}, false},
                        Case{{.n_experts = 128, .top_k = 8, .renormalize = 1}, false},
                        Case{{.n_experts = 60, .top_k = 4}, false},
                        Case{{.n_experts = 256,
                              .top_k = 8,
                              .sigmoid = 1,
                              .renormalize = 1,
                              .n_groups = 8,
                              .top_groups = 4,
                              .scale = 2.5F},
                             true},
                        Case{{.n_experts = 1, .top_k = 1}, false}}) {
    constexpr int64_t kTokens = 40;
    const auto n = static_cast<size_t>(c.router.n_experts);
    const auto k = static_cast<size_t>(c.router.top_k);
    std::vector<float> logits = random_floats(kTokens * c.router.n_experts, 3, 2.0F);
    // Ties go to the lower id, and a NaN is chosen last.
    if (n > 4) logits[3] = logits[1], logits[2 * n + 1] = std::nanf("");
    const auto run = [&](Gpu& gpu) {
      const auto experts = gpu.make<int32_t>(kTokens * k);
      const auto weights = gpu.make<float>(kTokens * k);
      const auto bias =
          c.has_bias ? gpu.upload(random_floats(c.router.n_experts, 4, 0.1F)) : DeviceSpan<float>{};
      // A few tokens by one kernel, many by two.
      const int64_t n_few = 7;
      const auto groups = gpu.make<GpuExpertGroup>(n);
      const auto n_groups = gpu.make<int32_t>(1);
      const auto rest = [&](const auto& span, size_t each) {
        const size_t first = n_few * each;
        return span.subspan(first, span.size() - first);
      };
      const auto all = gpu.upload(logits);
      const GpuRouting routing = {.slots = gpu.upload(std::vector<int32_t>(n, 3)),
                                  .experts = experts,
                                  .weights = weights,
                                  .groups = groups,
                                  .n_groups = n_groups,
                                  .row_of = gpu.make<int32_t>(kTokens * k),
                                  .token_of = gpu.make<int32_t>(kTokens * k)};
      EXPECT_TRUE(gpu_route(gpu.queue(), c.router, n_few, all, bias, routing));
      int32_t n_grouped = 0;
      std::vector<GpuExpertGroup> found = gpu.download(groups);
      found.resize(static_cast<size_t>(gpu.download(n_groups)[0]));
      for (const GpuExpertGroup& group : found) n_grouped += group.n_rows;
      EXPECT_EQ(n_grouped, n_few * c.router.top_k);
      GpuRouting of_rest = routing;
      of_rest.experts = rest(experts, k);
      of_rest.weights = rest(weights, k);
      EXPECT_TRUE(gpu_route(gpu.queue(), c.router, kTokens - n_few, rest(all, n), bias, of_rest));
      return std::pair{gpu.download(experts), gpu.download(weights)};
    };
    const auto [found, expected] = both(run);
    // A softmax over a NaN has nothing but NaN: any choice of distinct experts will do.
    const auto is_clear = [&](size_t t) { return n <= 4 || t != 2 || c.router.sigmoid != 0; };
    for (size_t t = 0; t < kTokens; ++t) {
      if (!is_clear(t)) continue;
      for (size_t i = t * k; i < (t + 1) * k; ++i) {
        EXPECT_EQ(found.first[i], expected.first[i]) << n << " experts, token " << t;
        EXPECT_NEAR(found.second[i], expected.second[i], 1e-5) << n << " experts, token " << t;
      }
    }
  }
}

TEST_F(GpuKernelTest, AStreamIsRoutedWithTheSameBitsAtOnce) {
  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16}) {
    for (const auto& [n_experts, cols, n_tokens] :
         {std::tuple{128, 2048, 1}, {128, 2048, 8}, {61, 300, 3}, {256, 7168, 2}, {1, 40, 8}}) {
      SCOPED_TRACE(fmt::format("{} experts of {}, {} tokens", n_experts, cols, n_tokens));
      const RandomMatrix w(format, n_experts, cols, Numbers::kModest, 1);
      const GpuRouter router = {
          .n_experts = n_experts, .top_k = std::min(8, n_experts), .renormalize = 1};
      Gpu gpu(real());
      const auto n = static_cast<size_t>(n_tokens);
      const size_t n_rows = n * static_cast<size_t>(router.top_k);
      const GpuNormed x = {
          {gpu.upload(random_floats(n_tokens * cols, 2, 5.0F)), n_tokens, cols, cols},
          gpu.upload(random_floats(cols, 3)),
          1e-6F};
      const GpuMatrix matrix = gpu.upload(w.view());
      const auto slots = gpu.upload(std::vector<int32_t>(static_cast<size_t>(n_experts), 3));
      const auto arrived = gpu.upload(std::vector<int32_t>{0});
      // Twice, so that what the first leaves behind is seen.
      for (int turn = 0; turn < 2; ++turn) {
        const auto run = [&](bool at_once) {
          const GpuRouting routing = {
              .slots = slots,
              .experts = gpu.make<int32_t>(n_rows),
              .weights = gpu.make<float>(n_rows),
              .groups = gpu.make<GpuExpertGroup>(static_cast<size_t>(n_experts)),
              .n_groups = gpu.make<int32_t>(1),
              .row_of = gpu.make<int32_t>(n_rows),
              .token_of = gpu.make<int32_t>(n_rows)};
          const GpuRows<uint16_t> h = {gpu.make<uint16_t>(n * static_cast<size_t>(cols)), n_tokens,
                                       cols, cols};
          const GpuRows<float> h_float = {gpu.make<float>(n * static_cast<size_t>(cols)), n_tokens,
                                          cols, cols};
          const auto logits = gpu.make<float>(n * static_cast<size_t>(n_experts));
          if (at_once) {
            EXPECT_TRUE(
                gpu_norm_route(gpu.queue(), {matrix, x, h, logits, arrived}, router, {}, routing));
          } else {
            EXPECT_TRUE(gpu_rms_norm(gpu.queue(), x.x, {}, x.weight, x.eps, h, h_float));
            EXPECT_TRUE(gpu_router_logits(gpu.queue(), matrix, h_float, logits));
            EXPECT_TRUE(gpu_route(gpu.queue(), router, n_tokens, logits, {}, routing));
          }
          return std::tuple{gpu.download(h.data), gpu.download(logits),
                            gpu.download(routing.experts), gpu.download(routing.weights),
                            gpu.download(routing.n_groups)};
        };
        EXPECT_EQ(run(true), run(false));
        EXPECT_EQ(gpu.download(arrived)[0], 0);
      }
    }
  }
}

// A router that misses an expert waits for the host; one that nobody answers gives up, and the next
// does not wait at all.
TEST_F(GpuKernelTest, ARouterThatNobodyAnswersGivesUp) {
  Gpu gpu(real());
  Driver& driver = *gpu.queue().driver;
  constexpr size_t kBytes = 64 * 1024;
  auto memory = AnonymousMemory::reserve(kBytes, OsPages::kNormal);
  ASSERT_TRUE(memory);
  auto* const mailbox = new (memory->bytes().data()) GpuExpertMailbox;
  ASSERT_TRUE(driver.register_host(memory->bytes()));
  const auto view = driver.device_view(memory->bytes());
  ASSERT_TRUE(view);
  const GpuRouter router = {.n_experts = 8, .top_k = 2};
  const GpuRouting routing = {.slots = gpu.upload(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, -1}),
                              .experts = gpu.make<int32_t>(2),
                              .weights = gpu.make<float>(2),
                              .groups = gpu.make<GpuExpertGroup>(8),
                              .n_groups = gpu.make<int32_t>(1),
                              .row_of = gpu.make<int32_t>(2),
                              .token_of = gpu.make<int32_t>(2)};
  const GpuExpertCalls calls = {
      .mailbox = view->subspan(0, sizeof(GpuExpertMailbox)).as<GpuExpertMailbox>(),
      .log =
          view->subspan(sizeof(GpuExpertMailbox), kGpuMostLogged * sizeof(int32_t)).as<int32_t>(),
      .counter = gpu.upload(std::vector<uint32_t>{0}),
      .layer = 5};
  const auto route = [&](std::vector<float> logits) {
    EXPECT_TRUE(gpu_route(gpu.queue(), router, 1, gpu.upload(logits), {}, routing, calls));
    return gpu.download(routing.groups)[1];
  };
  EXPECT_EQ(route({0, 0, 9, 0, 8, 0, 0, 0}).slot, 4) << "experts that are there: nobody is asked";
  EXPECT_EQ(mailbox->request, 0u);
  const auto* const log = reinterpret_cast<const int32_t*>(mailbox + 1);
  EXPECT_EQ(log[0], 2);
  EXPECT_EQ(log[1], 4);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(route({0, 0, 9, 0, 0, 0, 0, 8}).slot, 0) << "no slot, and no wild address either";
    EXPECT_EQ(mailbox->request, 1u);
    EXPECT_EQ(mailbox->layer, 5);
    EXPECT_EQ(mailbox->failed, 1u);
  }
  ASSERT_TRUE(driver.unregister_host(memory->bytes().data()));
}

TEST_F(GpuKernelTest, RouterLogitsEqualTheReference) {
  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16}) {
    const RandomMatrix w(format, 60, 300, Numbers::kModest, 1);
    const auto run = [&](Gpu& gpu) {
      const auto logits = gpu.make<float>(5 * 60);
      EXPECT_TRUE(gpu_router_logits(gpu.queue(), gpu.upload(w.view()),
                                    {gpu.upload(random_floats(5 * 300, 2)), 5, 300, 300}, logits));
      return gpu.download(logits);
    };
    const auto [found, expected] = both(run);
    expect_near(found, expected, 60, kSumBound, std::string(info(format).name));
  }
}

TEST_F(GpuKernelTest, GroupsHoldEachAssignmentOnce) {
  for (const int n_experts : {1, 31, 128, 300}) {
    constexpr int kTopK = 3;
    constexpr int64_t kTokens = 700;
    std::mt19937 random(2);
    std::vector<int32_t> chosen(kTokens * kTopK);
    for (int32_t& expert : chosen)
      expert = static_cast<int32_t>(random() % static_cast<unsigned>(n_experts));
    Gpu gpu(real());
    const auto groups = gpu.make<GpuExpertGroup>(static_cast<size_t>(n_experts));
    const auto n_groups = gpu.make<int32_t>(1);
    const auto row_of = gpu.make<int32_t>(chosen.size());
    const auto token_of = gpu.make<int32_t>(chosen.size());
    ASSERT_TRUE(gpu_router_group(gpu.queue(), {.n_experts = n_experts, .top_k = kTopK}, kTokens,
                                 {.slots = gpu.upload(chosen),
                                  .experts = gpu.upload(chosen),
                                  .groups = groups,
                                  .n_groups = n_groups,
                                  .row_of = row_of,
                                  .token_of = token_of}));
    const auto rows = gpu.download(row_of);
    const auto tokens = gpu.download(token_of);
    std::vector<int32_t> expert_of(chosen.size(), -1);
    int32_t last = -1;
    int32_t next_row = 0;
    std::vector<GpuExpertGroup> found = gpu.download(groups);
    found.resize(static_cast<size_t>(gpu.download(n_groups)[0]));
    for (const GpuExpertGroup& group : found) {
      EXPECT_GT(group.expert, last);
      EXPECT_EQ(group.first_row, next_row);
      EXPECT_GT(group.n_rows, 0);
      last = group.expert;
      for (int32_t i = 0; i < group.n_rows; ++i)
        expert_of[static_cast<size_t>(next_row++)] = group.expert;
    }
    EXPECT_EQ(next_row, std::ssize(chosen));
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto row = static_cast<size_t>(rows[i]);
      EXPECT_EQ(expert_of[row], chosen[i]);
      EXPECT_EQ(tokens[row], static_cast<int32_t>(i) / kTopK);
    }
  }
}

struct AttentionCase {
  int n_heads, n_kv_heads, head_dim, window;
  bool interleaved, has_norm;
};

struct AttentionResults {
  std::vector<float> out, pages;
};

// Three sequences: a prompt of 70 tokens, and single tokens far into theirs.
struct AttentionBatch {
  std::vector<int32_t> starts = {0, 300, 1023};
  std::vector<int32_t> counts = {70, 1, 1};
  bool at_once = false;
};

AttentionResults run_attention(Gpu& gpu, const AttentionCase& c, const AttentionBatch& batch = {}) {
  constexpr int kLayers = 2;
  const auto& [starts, counts, at_once] = batch;
  const int32_t half = c.head_dim / 4;
  const int32_t q_numbers = c.n_heads * c.head_dim;
  const int32_t kv_numbers = c.n_kv_heads * c.head_dim;
  const GpuAttentionShape shape = {.n_heads = c.n_heads,
                                   .n_kv_heads = c.n_kv_heads,
                                   .head_dim = c.head_dim,
                                   .layer = 1,
                                   .window = c.window,
                                   .half = half,
                                   .interleaved = c.interleaved,
                                   .q_stride = q_numbers + 2 * kv_numbers,
                                   .kv_stride = q_numbers + 2 * kv_numbers,
                                   .eps = 1e-6F,
                                   .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim))};
  std::vector<GpuToken> tokens;
  std::vector<int32_t> pages;
  int32_t next_page = 0;
  for (size_t s = 0; s < starts.size(); ++s) {
    const auto first_page = static_cast<int32_t>(pages.size());
    for (int32_t i = 0; i < counts[s]; ++i) tokens.push_back({starts[s] + i, first_page});
    for (int32_t i = 0; i <= (starts[s] + counts[s] - 1) / kGpuPageTokens; ++i) {
      pages.push_back(next_page++);
    }
  }
  std::ranges::reverse(pages);  // anywhere
  const uint64_t page_numbers = kLayers * 2 * shape.layer_numbers();
  const GpuKv kv = {gpu.upload(random_bf16(pages.size() * page_numbers, 1)), page_numbers};
  const auto n = static_cast<int64_t>(tokens.size());
  const GpuStepTokens step = {.n_tokens = n,
                              .longest = std::ranges::max(starts) + 1,
                              .tokens = gpu.upload(tokens),
                              .pages = gpu.upload(pages),
                              .angles = gpu.upload(random_floats(n * 2 * half, 2))};
  const auto qkv = gpu.upload(random_floats(n * shape.q_stride, 3));
  const auto from = [&](int32_t first) {
    return qkv.subspan(static_cast<size_t>(first), qkv.size() - static_cast<size_t>(first));
  };
  const auto norm = [&](uint32_t seed) {
    return c.has_norm ? gpu.upload(random_floats(c.head_dim, seed)) : DeviceSpan<float>{};
  };
  const auto k = from(q_numbers), v = from(q_numbers + kv_numbers);
  const auto q_norm = norm(4), k_norm = norm(5);
  const GpuSplits splits = GpuSplits::of(step.longest);
  const auto part = gpu.make<float>(splits.part_numbers(shape, n));
  const auto stats = gpu.make<float>(splits.stat_numbers(shape, n));
  const GpuRows<uint16_t> rows = {gpu.make<uint16_t>(static_cast<size_t>(n * q_numbers)), n,
                                  q_numbers, q_numbers};
  if (at_once) {
    const std::vector<int32_t> zeros(static_cast<size_t>(n * c.n_kv_heads), 0);
    const auto arrived = gpu.upload(zeros);
    for (int turn = 0; turn < 2; ++turn) {  // the second finds what the first left
      EXPECT_TRUE(gpu_attention_newest(gpu.queue(), shape, step, {qkv, k, v, q_norm, k_norm}, kv,
                                       splits, part, stats, arrived, rows));
      EXPECT_EQ(gpu.download(arrived), zeros);
    }
  } else {
    EXPECT_TRUE(gpu_attention_store(gpu.queue(), shape, step, qkv, k, v, q_norm, k_norm, kv));
    EXPECT_TRUE(gpu_attention(gpu.queue(), shape, step, qkv, kv, splits, part, stats, rows));
  }
  const auto& out = rows.data;
  return {floats_of(gpu.download(out)), floats_of(gpu.download(kv.pages))};
}

TEST_F(GpuKernelTest, AttentionEqualsTheReference) {
  for (const AttentionCase& c :
       {AttentionCase{32, 4, 128, 0, false, true}, AttentionCase{9, 3, 64, 0, false, false},
        AttentionCase{4, 4, 16, 0, true, false}, AttentionCase{16, 1, 80, 100, false, true},
        AttentionCase{24, 2, 256, 513, true, false}, AttentionCase{2, 1, 12, 1, false, false}}) {
    SCOPED_TRACE(fmt::format("{} heads, {} kv heads of {}, window {}", c.n_heads, c.n_kv_heads,
                             c.head_dim, c.window));
    const auto [found, expected] = both([&](Gpu& gpu) { return run_attention(gpu, c); });
    const auto cols = static_cast<size_t>(c.n_heads * c.head_dim);
    expect_near(found.pages, expected.pages, static_cast<size_t>(c.head_dim), kBf16Bound, "pages");
    // Keys and queries that were rounded the other way move scores a little.
    expect_near(found.out, expected.out, cols, 2 * kBf16Bound, "out");
  }
}

TEST_F(GpuKernelTest, ADecodeStepsAttentionAtOnceLeavesTheSameBits) {
  for (const AttentionCase& c :
       {AttentionCase{32, 4, 128, 0, false, true}, AttentionCase{9, 3, 64, 0, true, false},
        AttentionCase{16, 1, 128, 100, false, true}, AttentionCase{12, 1, 64, 1, false, true}}) {
    for (const std::vector<int32_t>& starts :
         {std::vector<int32_t>{0}, {511}, {0, 62, 63, 64, 300, 1023}, {5, 2999}}) {
      SCOPED_TRACE(fmt::format("{} heads, {} kv heads of {}, window {}, {} sequences", c.n_heads,
                               c.n_kv_heads, c.head_dim, c.window, starts.size()));
      Gpu gpu(real());
      AttentionBatch batch = {.starts = starts, .counts = std::vector<int32_t>(starts.size(), 1)};
      const AttentionResults apart = run_attention(gpu, c, batch);
      batch.at_once = true;
      const AttentionResults at_once = run_attention(gpu, c, batch);
      EXPECT_EQ(at_once.out, apart.out);
      EXPECT_EQ(at_once.pages, apart.pages);
    }
  }
}

TEST_F(GpuKernelTest, APageIsCopiedWhole) {
  Gpu gpu(real());
  const auto numbers = random_bf16(5 * 4096, 1);
  const GpuKv kv = {gpu.upload(numbers), 4096};
  ASSERT_TRUE(gpu_copy_page(gpu.queue(), kv, 3, 1));
  auto expected = numbers;
  std::copy_n(numbers.begin() + 3 * 4096, 4096, expected.begin() + 4096);
  EXPECT_EQ(gpu.download(kv.pages), expected);
}

}  // namespace
}  // namespace penstock
