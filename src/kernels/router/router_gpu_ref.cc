#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/rms_norm/norm_ref.h"
#include "kernels/router/router.h"
#include "kernels/router/router_gpu.h"

namespace penstock {
namespace {

size_t number_bytes(Format format) { return format == Format::kF32 ? 4 : 2; }

MatrixView router_matrix(Format format, std::span<const std::byte> data, int64_t n_experts,
                         int64_t cols) {
  return {.format = format,
          .rows = n_experts,
          .cols = cols,
          .data = data.first(static_cast<size_t>(n_experts) * static_cast<size_t>(cols) *
                             number_bytes(format))};
}

void multiply(const MatrixView& w, std::span<const float> x, size_t x_stride, size_t n_tokens,
              float factor, std::span<float> logits) {
  std::vector<float> row(static_cast<size_t>(w.cols));
  for (int64_t expert = 0; expert < w.rows; ++expert) {
    widen_row(w, expert, row);
    for (size_t t = 0; t < n_tokens; ++t) {
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        sum += static_cast<double>(row[i]) * x[t * x_stride + i];
      }
      logits[t * static_cast<size_t>(w.rows) + static_cast<size_t>(expert)] =
          static_cast<float>(sum * factor);
    }
  }
}

void logits_kernel(Format format, const FakeKernelCall& call) {
  const MatrixView w = router_matrix(format, call.span<const std::byte>(0), call.value<int32_t>(4),
                                     call.value<int32_t>(3));
  multiply(w, call.span<const float>(1), static_cast<size_t>(call.value<int64_t>(2)),
           static_cast<size_t>(call.value<int32_t>(5)), call.value<float>(6), call.span<float>(7));
}

void choose(const GpuRouter& router, size_t n_tokens, std::span<const float> logits,
            std::span<const float> bias, std::span<int32_t> experts, std::span<float> weights) {
  const RouterSpec spec = {
      .score = router.sigmoid != 0 ? RouterScore::kSigmoid : RouterScore::kSoftmax,
      .has_bias = !bias.empty(),
      .renormalize = router.renormalize != 0,
      .n_groups = router.n_groups,
      .top_groups = router.top_groups,
      .scale = router.scale};
  const auto n_experts = static_cast<size_t>(router.n_experts);
  std::vector<ExpertChoice> chosen(static_cast<size_t>(router.top_k));
  for (size_t t = 0; t < n_tokens; ++t) {
    route(spec, logits.subspan(t * n_experts, n_experts), bias, chosen);
    for (size_t k = 0; k < chosen.size(); ++k) {
      experts[t * chosen.size() + k] = chosen[k].expert;
      weights[t * chosen.size() + k] = chosen[k].weight;
    }
  }
}

// What is written of a step's groups.
struct Groups {
  std::span<const int32_t> slots;
  std::span<GpuExpertGroup> groups;
  std::span<int32_t> n_groups, row_of, token_of;
};

void group(std::span<const int32_t> experts, int32_t top_k, int32_t n_experts, const Groups& to) {
  int32_t n_groups = 0;
  int32_t row = 0;
  for (int32_t expert = 0; expert < n_experts; ++expert) {
    const int32_t first = row;
    for (size_t i = 0; i < experts.size(); ++i) {
      if (experts[i] != expert) continue;
      to.row_of[i] = row;
      to.token_of[static_cast<size_t>(row++)] = static_cast<int32_t>(i) / top_k;
    }
    if (row > first)
      to.groups[static_cast<size_t>(n_groups++)] = {
          expert, first, row - first, std::max(to.slots[static_cast<size_t>(expert)], 0)};
  }
  to.n_groups[0] = n_groups;
}

void choose_kernel(const FakeKernelCall& call) {
  choose(call.value<GpuRouter>(0), static_cast<size_t>(call.value<int32_t>(1)),
         call.span<const float>(2), call.span<const float>(3), call.span<int32_t>(4),
         call.span<float>(5));
}

Groups groups_at(const FakeKernelCall& call, size_t first) {
  return {call.span<const int32_t>(first), call.span<GpuExpertGroup>(first + 1),
          call.span<int32_t>(first + 2), call.span<int32_t>(first + 3),
          call.span<int32_t>(first + 4)};
}

void group_kernel(const FakeKernelCall& call) {
  const auto n = static_cast<size_t>(call.value<int32_t>(1));
  group(call.span<const int32_t>(0).first(n), call.value<int32_t>(2), call.value<int32_t>(3),
        groups_at(call, 4));
}

// A step's routing, whose arguments begin at `first`.
class Route {
 public:
  Route(const FakeKernelCall& call, size_t first) : call_(call), first_(first) {}

  // Not yet, where experts are missing: the kernel is called again.
  void run(std::span<const float> logits) const {
    const auto router = call_.value<GpuRouter>(first_);
    const auto n_tokens = static_cast<size_t>(call_.value<int32_t>(first_ + 1));
    const auto experts = call_.span<int32_t>(first_ + 3);
    choose(router, n_tokens, logits, call_.span<const float>(first_ + 2), experts,
           call_.span<float>(first_ + 4));
    const auto chosen = experts.first(n_tokens * static_cast<size_t>(router.top_k));
    if (!call_.span<GpuExpertMailbox>(first_ + 10).empty() && !has_experts(chosen)) {
      return call_.wait();
    }
    group(chosen, router.top_k, router.n_experts, groups_at(call_, first_ + 5));
  }

 private:
  // Whether the layer's experts have slots; where not, the host is asked, once until it has
  // replied.
  bool has_experts(std::span<const int32_t> experts) const {
    const auto slots = call_.span<const int32_t>(first_ + 5);
    std::ranges::copy(experts, call_.span<int32_t>(first_ + 11).begin());
    const auto has_slot = [&](int32_t expert) { return slots[static_cast<size_t>(expert)] >= 0; };
    GpuExpertMailbox& mailbox = call_.span<GpuExpertMailbox>(first_ + 10)[0];
    if (std::ranges::all_of(experts, has_slot)) {
      mailbox.of_the_gpu[0] = 0;
      return true;
    }
    if (mailbox.request != mailbox.reply) return false;
    uint32_t& has_asked = mailbox.of_the_gpu[0];
    if (has_asked != 0) {
      has_asked = 0;
      return true;  // the host had none to give: its step has failed
    }
    has_asked = 1;
    mailbox.layer = call_.value<int32_t>(first_ + 13);
    mailbox.request = ++call_.span<uint32_t>(first_ + 12)[0];
    return false;
  }

  const FakeKernelCall& call_;
  size_t first_;
};

void choose_and_group_kernel(const FakeKernelCall& call) {
  Route(call, 1).run(call.span<const float>(0));
}

void router_kernel(Format format, const FakeKernelCall& call) {
  constexpr size_t kRoute = 11;  // where its arguments begin
  const auto x = call.span<const float>(1);
  const auto x_stride = static_cast<size_t>(call.value<int64_t>(2));
  const auto cols = static_cast<size_t>(call.value<int32_t>(5));
  const auto h = call.span<uint16_t>(8);
  const auto h_stride = static_cast<size_t>(call.value<int64_t>(9));
  const auto n_experts = call.value<GpuRouter>(kRoute).n_experts;
  const auto n_tokens = static_cast<size_t>(call.value<int32_t>(kRoute + 1));
  const MatrixView w =
      router_matrix(format, call.span<const std::byte>(0), n_experts, static_cast<int64_t>(cols));
  const auto logits = call.span<float>(7);
  std::vector<float> normed(n_tokens * cols);
  for (size_t t = 0; t < n_tokens; ++t) {
    const auto to = std::span(normed).subspan(t * cols, cols);
    norm_row(x.subspan(t * x_stride, cols), call.span<const float>(3).first(cols),
             call.value<float>(4), to);
    for (size_t i = 0; i < cols; ++i) h[t * h_stride + i] = f32_to_bf16(to[i]);
  }
  multiply(w, normed, cols, n_tokens, call.value<float>(6), logits);
  Route(call, kRoute).run(logits);
}

}  // namespace

void add_router_stand_ins(FakeDriver& driver) {
  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16}) {
    driver.add_kernel(fmt::format("router_logits_{}", info(format).name),
                      [format](const FakeKernelCall& call) { logits_kernel(format, call); });
    driver.add_kernel(fmt::format("router_{}", info(format).name),
                      [format](const FakeKernelCall& call) { router_kernel(format, call); });
  }
  driver.add_kernel("router_choose", choose_kernel);
  driver.add_kernel("router_group", group_kernel);
  driver.add_kernel("router_choose_and_group", choose_and_group_kernel);
}

}  // namespace penstock
