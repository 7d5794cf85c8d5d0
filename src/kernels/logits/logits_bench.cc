// The passes over 151,936 logits that choosing one token needs, on the calling thread, as the
// sampler makes them.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/logits/logits.h"
#include "kernels/random_floats.h"

namespace penstock {
namespace {

constexpr size_t kVocabulary = 151'936;

struct LogitsRun {
  LogitsRun()
      : logits(random_floats(kVocabulary, 1, /*deviation=*/3.0F)),
        maxima(n_stripes(kVocabulary) * kColumns),
        weights(kVocabulary) {
    by = {.largest = *std::ranges::max_element(logits), .inverse_temperature = 1.25F};
  }

  // Calls body(stripe's logits, its weights' place).
  template <class Body>
  void for_each_stripe(Body body) {
    for (size_t begin = 0; begin < kVocabulary; begin += kStripe) {
      const size_t n = std::min(kStripe, kVocabulary - begin);
      body(std::span<const float>(logits).subspan(begin, n), std::span(weights).subspan(begin, n));
    }
  }
  void find_maxima(Isa isa) { column_maxima(isa, logits, maxima); }
  void weigh(Isa isa) {
    for_each_stripe([&](auto from, auto to) { stripe_weights(isa, by, from, to); });
  }

  void check(Isa isa) {
    find_maxima(isa);
    weigh(isa);
    const std::vector<float> found_maxima = maxima, found_weights = weights;
    column_maxima_ref(logits, maxima);
    for_each_stripe([&](auto from, auto to) { stripe_weights_ref(by, from, to); });
    PENSTOCK_CHECK(found_maxima == maxima && found_weights == weights,
                   "a wrong answer is not timed");
  }

  std::vector<float> logits, maxima, weights;
  Softening by;
};

KernelBench logits_bench(std::string operation, Isa isa, double bytes,
                         void (LogitsRun::*pass)(Isa)) {
  return {.operation = std::move(operation),
          .isa = isa,
          .n_tokens = 1,
          .work = {.bytes = bytes},
          .prepare = [isa, pass](BenchArena&, Pool&) -> BenchRun {
            const auto run = std::make_shared<LogitsRun>();
            run->check(isa);
            return [run, isa, pass](Pool&) { (run.get()->*pass)(isa); };
          }};
}

}  // namespace

void add_logits_benches(Isa isa, std::vector<KernelBench>& to) {
  constexpr double kBytes = kVocabulary * sizeof(float);
  to.push_back(logits_bench("logits maxima", isa, kBytes, &LogitsRun::find_maxima));
  to.push_back(logits_bench("logits softmax", isa, 2 * kBytes, &LogitsRun::weigh));
}

}  // namespace penstock
