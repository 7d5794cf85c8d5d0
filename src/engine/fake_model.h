// For tests: a LanguageModel without weights, whose logits depend on every token of the sequence as
// its pages hold them, so that a wrong page, position or count shows as a wrong answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/philox.h"
#include "kernels/attention/attention.h"
#include "model/language_model.h"

namespace penstock {

// Pseudo-random logits in [0, 8) that any change of the history changes: a chain over its tokens.
using HashState = std::array<uint32_t, 4>;

inline HashState next_state(HashState state, int32_t token) {
  state[0] ^= static_cast<uint32_t>(token);
  return philox4x32(state, {1, 2});
}

inline void state_logits(const HashState& state, std::span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto bits = philox4x32(state, {static_cast<uint32_t>(i), 3});
    logits[i] = static_cast<float>(bits[0] >> 8) * 0x1p-21F;
  }
}

inline void hash_logits(std::span<const int32_t> history, std::span<float> logits) {
  HashState state = {};
  for (const int32_t token : history) state = next_state(state, token);
  state_logits(state, logits);
}

struct FakeModelOptions {
  int64_t vocab_size = 300;
  int n_layers = 5;
  int64_t context_length = 1'000'000;
  int64_t n_pages = 64;
  int64_t n_states = 0;  // above 0: a made-up recurrent family, whose pages are not enough
  RopeType rope_type = RopeType::kDefault;
  std::function<void(std::span<const int32_t> history, std::span<float> logits)> logits =
      hash_logits;
  // Called at the start of each step: may record, block, fail or throw.
  std::function<Result<void>(std::span<const SequenceSlice> batch)> on_step = {};
  std::optional<ExpertCounts> experts = {};  // answers expert_counts
  // Answers ready_pages.
  std::function<bool(int64_t n_pages)> on_ready_pages = {};
};

class FakeModel : public LanguageModel {
 public:
  explicit FakeModel(FakeModelOptions options) : options_(std::move(options)) {
    spec_.vocab_size = options_.vocab_size;
    spec_.hidden_dim = 1;
    spec_.layers.resize(static_cast<size_t>(options_.n_layers));
    spec_.context_length = options_.context_length;
    spec_.rope.type = options_.rope_type;
    pages_.resize(static_cast<size_t>(options_.n_pages));
    for (auto& page : pages_) page.fill(kNeverWritten);
    states_.resize(static_cast<size_t>(options_.n_states), {.n_tokens = -1});
  }

  const ModelSpec& spec() const override { return spec_; }
  int64_t n_pages() const override { return options_.n_pages; }

  Result<void> step(std::span<const SequenceSlice> batch, std::span<float> logits) override {
    if (options_.on_step) PENSTOCK_TRY(options_.on_step(batch));
    PENSTOCK_TRY(check_pages(batch));
    const auto vocab_size = static_cast<size_t>(options_.vocab_size);
    size_t row = 0;
    for (const SequenceSlice& slice : batch) {
      if (slice.layers) PENSTOCK_TRY(cross_layers(slice));
      if (slice.layers && slice.layers->end < options_.n_layers) continue;
      for (size_t i = 0; i < slice.tokens.size(); ++i) {
        token_at(slice, slice.position + static_cast<int64_t>(i)) = slice.tokens[i];
      }
      if (is_recurrent()) PENSTOCK_TRY(advance_state(slice));
      if (slice.logits == LogitRows::kNone) continue;
      const auto of_slice = logits.subspan(row++ * vocab_size, vocab_size);
      if (is_recurrent()) {
        state_logits(states_[static_cast<size_t>(*slice.state)].hash, of_slice);
      } else {
        options_.logits(history(slice), of_slice);
      }
    }
    if (row * vocab_size != logits.size()) return fail(ErrorKind::kInternal, "wrong logits size");
    return {};
  }

  bool ready_pages(int64_t n_pages) override {
    return options_.on_ready_pages && options_.on_ready_pages(n_pages);
  }

  std::optional<ExpertCounts> expert_counts() const override { return options_.experts; }

  int64_t n_states() const override { return options_.n_states; }
  void clear_state(StateId state) override { states_[static_cast<size_t>(state)] = {}; }
  void copy_state(StateId from, StateId to) override {
    states_[static_cast<size_t>(to)] = states_[static_cast<size_t>(from)];
  }
  std::span<std::byte> page_memory(PageId page) override {
    if (is_recurrent()) return {};
    return std::as_writable_bytes(std::span(pages_[static_cast<size_t>(page)]));
  }
  void copy_page(PageId from, PageId to) override {
    pages_[static_cast<size_t>(to)] = pages_[static_cast<size_t>(from)];
  }

 private:
  struct State {
    HashState hash = {};
    int64_t n_tokens = 0;
  };
  using Page = std::array<int32_t, kPageTokens>;
  static constexpr int32_t kNeverWritten = -7;

  // The pages cover what is written, and whoever writes one has it alone.
  Result<void> check_pages(std::span<const SequenceSlice> batch) const {
    std::map<PageId, int> n_holders;
    for (const SequenceSlice& slice : batch) {
      const auto end = static_cast<size_t>(slice.position) + slice.tokens.size();
      if (slice.tokens.empty() || slice.pages.size() * kPageTokens < end ||
          static_cast<int64_t>(end) > slice.planned_length) {
        return fail(ErrorKind::kInternal, "{} pages for [{}, {}) of {} planned", slice.pages.size(),
                    slice.position, end, slice.planned_length);
      }
      for (const PageId page : slice.pages) ++n_holders[page];
    }
    for (const SequenceSlice& slice : batch) {
      const auto first_written = static_cast<size_t>(slice.position / kPageTokens);
      for (size_t i = first_written; i < slice.pages.size(); ++i) {
        if (n_holders[slice.pages[i]] > 1) {
          return fail(ErrorKind::kInternal, "page {} is written, and somebody else has it",
                      static_cast<uint32_t>(slice.pages[i]));
        }
      }
    }
    return {};
  }

  // The stream that a slice brings is the one that the layers before left, for the same tokens.
  Result<void> cross_layers(const SequenceSlice& slice) const {
    const LayerRange& layers = *slice.layers;
    if (layers.begin >= layers.end || layers.end > options_.n_layers ||
        layers.stream.size() != slice.tokens.size()) {
      return fail(ErrorKind::kInternal, "layers [{}, {}) of {} with {} of {} rows", layers.begin,
                  layers.end, options_.n_layers, layers.stream.size(), slice.tokens.size());
    }
    for (size_t i = 0; i < slice.tokens.size(); ++i) {
      const auto row = [&](int layer) {
        return static_cast<float>(slice.tokens[i] * 1000 + layer);
      };
      if (layers.begin > 0 && layers.stream[i] != row(layers.begin)) {
        return fail(ErrorKind::kInternal, "token {} did not come from layer {}", i, layers.begin);
      }
      layers.stream[i] = row(layers.end);
    }
    return {};
  }

  // A recurrent block sees each token once, in order, and the pages must agree with what it saw.
  Result<void> advance_state(const SequenceSlice& slice) {
    if (!slice.state) return fail(ErrorKind::kInternal, "a slice without a state");
    State& state = states_[static_cast<size_t>(*slice.state)];
    if (state.n_tokens != slice.position) {
      return fail(ErrorKind::kInternal, "the state is after {} tokens, the slice begins at {}",
                  state.n_tokens, slice.position);
    }
    for (const int32_t token : slice.tokens) state.hash = next_state(state.hash, token);
    state.n_tokens += static_cast<int64_t>(slice.tokens.size());
    HashState of_pages = {};
    for (const int32_t token : history(slice)) of_pages = next_state(of_pages, token);
    if (of_pages != state.hash) return fail(ErrorKind::kInternal, "state and pages disagree");
    return {};
  }

  bool is_recurrent() const { return options_.n_states > 0; }

  int32_t& token_at(const SequenceSlice& slice, int64_t position) {
    const PageId page = slice.pages[static_cast<size_t>(position / kPageTokens)];
    return pages_[static_cast<size_t>(page)][static_cast<size_t>(position % kPageTokens)];
  }

  std::vector<int32_t> history(const SequenceSlice& slice) {
    std::vector<int32_t> tokens;
    const int64_t end = slice.position + static_cast<int64_t>(slice.tokens.size());
    for (int64_t position = 0; position < end; ++position) {
      tokens.push_back(token_at(slice, position));
    }
    return tokens;
  }

  FakeModelOptions options_;
  ModelSpec spec_;
  std::vector<Page> pages_;
  std::vector<State> states_;
};

}  // namespace penstock
