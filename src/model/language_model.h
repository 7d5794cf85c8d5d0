// What the engine runs: one step over a batch of sequences, whatever the family and wherever the
// weights live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "checkpoint/model_spec.h"
#include "memory/expert_cache.h"
#include "memory/kv_store.h"
#include "memory/page_pool.h"
#include "model/profile.h"
#include "model/routing_observer.h"

namespace penstock {

enum class LogitRows : uint8_t { kNone, kLast, kAll };

// Whether a slice's tokens came from outside or were generated. The fast class multiplies the two
// differently, so that this, and never the size of a chunk or a batch, decides what a token gets.
enum class TokenOrigin : uint8_t { kPrompt, kGenerated };

// Layers [begin, end) of a model, for tokens that cross it in several steps; between these their
// residual stream is kept by whoever plans the steps.
struct LayerRange {
  int begin = 0;
  int end = 0;
  // [tokens, hidden_dim]: what the layers before `begin` made of the tokens; after the step, what
  // those before `end` did. Not read where the range begins the model, not written where it ends
  // it.
  std::span<float> stream = {};
};

// One sequence's part of a step. Tokens are written to the KV pages at [position, position +
// tokens.size()).
struct SequenceSlice {
  std::span<const int32_t> tokens = {};
  int64_t position = 0;
  std::span<const PageId> pages = {};  // cover [0, position + tokens.size())
  std::optional<StateId> state = {};   // of recurrent families: what [0, position) left behind
  int64_t planned_length = 0;  // the request's longest possible length: fixes dynamic rope tables
  LogitRows logits = LogitRows::kLast;
  TokenOrigin origin = TokenOrigin::kPrompt;
  // All layers, unless said. In a batch, slices with a range are prompts and come last, all with
  // the same one. Logits only where the range ends the model.
  std::optional<LayerRange> layers = {};
};

struct WeightsRead {
  uint64_t bytes = 0;
  double seconds = 0.0;
};

// One thread: the engine's, which is worker 0 of the model's pool.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual int64_t n_pages() const = 0;

  // Runs one step. logits: [sum of rows asked for, vocab_size] f32, in the order of the slices.
  // A token id outside the vocabulary is an error before anything is computed. After an error the
  // positions that the batch was to write hold undefined numbers; all others are as before.
  virtual Result<void> step(std::span<const SequenceSlice> batch, std::span<float> logits) = 0;

  // Copies what one page holds, in every layer: copy on write of a shared page.
  virtual void copy_page(PageId from, PageId to) = 0;

  // All that one page holds, in every layer, as bytes that mean the same in any other page. Empty:
  // this family's pages mean nothing without what it keeps elsewhere.
  virtual std::span<std::byte> page_memory(PageId /*page*/) { return {}; }

  // Between steps: has memory for the first n_pages KV pages made ready, a little in each call, so
  // that no step waits for it. Whether some is left.
  virtual bool ready_pages(int64_t /*n_pages*/) { return false; }

  // From now on adds to it where steps spend their time; null: no longer. It outlives its use.
  virtual void set_profile(Profile* /*profile*/) {}

  // From now on tells it which experts steps choose; null: nobody. It outlives its use.
  virtual void set_routing_observer(RoutingObserver* /*observer*/) {}

  // Reads all weights once with all workers, and does nothing else. No step can be quicker that
  // reads them from there. Nothing: they are not in memory.
  virtual std::optional<WeightsRead> read_weights() { return std::nullopt; }

  // Nothing: no experts stay on disk.
  virtual std::optional<ExpertCounts> expert_counts() const { return std::nullopt; }

  // Recurrent families keep a state of fixed size per sequence, which a step reads and leaves as it
  // is after the slice's tokens (after an error: undefined). This many fit; 0: the family has none.
  virtual int64_t n_states() const { return 0; }
  // Makes it the state of no tokens.
  virtual void clear_state(StateId /*state*/) { no_states(); }
  virtual void copy_state(StateId /*from*/, StateId /*to*/) { no_states(); }

 private:
  static void no_states() { PENSTOCK_CHECK(false, "this family keeps no recurrent state"); }
};

}  // namespace penstock
