#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/router/router.h"
#include "kernels/router/router_gpu.h"

namespace penstock {
namespace {

size_t number_bytes(Format format) { return format == Format::kF32 ? 4 : 2; }

void logits(Format format, const FakeKernelCall& call) {
  const auto x_stride = call.value<int64_t>(2);
  const auto cols = call.value<int32_t>(3);
  const auto n_experts = call.value<int32_t>(4);
  const auto n_tokens = call.value<int32_t>(5);
  const auto factor = call.value<float>(6);
  const MatrixView w = {
      .format = format,
      .rows = n_experts,
      .cols = cols,
      .data = call.span<const std::byte>(0).first(
          static_cast<size_t>(n_experts) * static_cast<size_t>(cols) * number_bytes(format))};
  const auto x = call.span<const float>(1);
  const auto out = call.span<float>(7);
  std::vector<float> row(static_cast<size_t>(cols));
  for (int64_t expert = 0; expert < n_experts; ++expert) {
    widen_row(w, expert, row);
    for (int64_t t = 0; t < n_tokens; ++t) {
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        sum += static_cast<double>(row[i]) * x[static_cast<size_t>(t * x_stride) + i];
      }
      out[static_cast<size_t>(t * n_experts + expert)] = static_cast<float>(sum * factor);
    }
  }
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

Groups groups_at(const FakeKernelCall& call, size_t first) {
  return {call.span<const int32_t>(first), call.span<GpuExpertGroup>(first + 1),
          call.span<int32_t>(first + 2), call.span<int32_t>(first + 3),
          call.span<int32_t>(first + 4)};
}

void choose_kernel(const FakeKernelCall& call) {
  choose(call.value<GpuRouter>(0), static_cast<size_t>(call.value<int32_t>(1)),
         call.span<const float>(2), call.span<const float>(3), call.span<int32_t>(4),
         call.span<float>(5));
}

void group_kernel(const FakeKernelCall& call) {
  const auto n = static_cast<size_t>(call.value<int32_t>(1));
  group(call.span<const int32_t>(0).first(n), call.value<int32_t>(2), call.value<int32_t>(3),
        groups_at(call, 4));
}

// Whether the layer's experts have slots; where not, the host is asked, once until it has replied.
bool has_experts(const FakeKernelCall& call, int32_t n) {
  const auto experts = call.span<int32_t>(4).first(static_cast<size_t>(n));
  const auto slots = call.span<const int32_t>(6);
  std::ranges::copy(experts, call.span<int32_t>(12).begin());
  const auto has_slot = [&](int32_t expert) { return slots[static_cast<size_t>(expert)] >= 0; };
  GpuExpertMailbox& mailbox = call.span<GpuExpertMailbox>(11)[0];
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
  mailbox.layer = call.value<int32_t>(14);
  mailbox.request = ++call.span<uint32_t>(13)[0];
  return false;
}

void choose_and_group_kernel(const FakeKernelCall& call) {
  choose_kernel(call);
  const auto router = call.value<GpuRouter>(0);
  const int32_t n = call.value<int32_t>(1) * router.top_k;
  if (!call.span<GpuExpertMailbox>(11).empty() && !has_experts(call, n)) return call.wait();
  group(call.span<int32_t>(4).first(static_cast<size_t>(n)), router.top_k, router.n_experts,
        groups_at(call, 6));
}

}  // namespace

void add_router_stand_ins(FakeDriver& driver) {
  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16}) {
    driver.add_kernel(fmt::format("router_logits_{}", info(format).name),
                      [format](const FakeKernelCall& call) { logits(format, call); });
  }
  driver.add_kernel("router_choose", choose_kernel);
  driver.add_kernel("router_group", group_kernel);
  driver.add_kernel("router_choose_and_group", choose_and_group_kernel);
}

}  // namespace penstock
