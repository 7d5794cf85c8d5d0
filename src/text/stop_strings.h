// Stop strings in a stream of text: what may be shown, and where the text ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

// Watches one stream. The text ends before the stop string that is complete first; of several
// complete at the same place, before the longest. So it does not matter how the text comes in
// pieces. Held back is only what could still be the beginning of a stop string. Not thread-safe.
class StopStrings {
 public:
  // kInvalidArgument (param "stop") where one is empty, is not UTF-8, or together they exceed 64
  // KiB. None is fine.
  static Result<StopStrings> create(std::span<const std::string> stops);

  // Takes the next piece of text and returns what may be shown now. After a match it returns
  // nothing any more.
  std::string push(std::string_view piece);
  // No more text comes: what was held back.
  std::string finish();

  bool stopped() const { return matched_ >= 0; }
  // The stop string that ended the text; only once stopped().
  const std::string& matched() const { return stops_[static_cast<size_t>(matched_)]; }

 private:
  // The automaton of Aho and Corasick (CACM 18:6, 1975): each state is the longest end of the text
  // so far that begins some stop string.
  struct State {
    std::vector<std::pair<char, uint32_t>> children = {};
    uint32_t fallback = 0;  // the longest proper end of this state that is a state
    uint32_t length = 0;    // bytes
    int32_t stop = -1;      // the longest stop string that this state ends with
  };
  uint32_t child_of(uint32_t state, char byte) const;  // 0: none
  uint32_t step(uint32_t state, char byte) const;
  void insert(size_t stop);
  void link();

  std::vector<std::string> stops_;
  std::vector<State> states_;
  uint32_t state_ = 0;
  std::string held_;  // ends with the state's bytes
  int32_t matched_ = -1;
};

}  // namespace penstock
