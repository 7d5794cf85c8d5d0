// Shows how far long work is: one line that is redrawn on a terminal, a plain line every few
// seconds elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "base/progress.h"

namespace penstock {

// "reading weights  1.2 GiB of 4.7 GiB, 830 MiB/s, 4.3 s left"; where `unit` names what is counted,
// "4 at once  12 of 32 requests, 2.1/s, 9.5 s left". Rate and remaining time count from
// the stage's first update, so that a resumed stage does not count what was already there.
struct StageProgress {
  std::string stage = {};
  std::string unit = {};  // empty: bytes
  uint64_t first_done = 0;
  uint64_t done = 0;
  uint64_t total = 0;  // 0: not known
  double seconds = 0;  // since the first update

  std::string text() const;
  // "reading weights: 4.7 GiB in 5.8 s, 830 MiB/s": once it is over.
  std::string summary() const;
  // The same in `columns` columns with a bar: "reading weights  [=====>     ]  50%  ...".
  std::string bar(int columns) const;
};

// One thread at a time. Its function must not be called after its end.
class ProgressDisplay {
 public:
  struct Options {
    std::FILE* out = stderr;
    std::string unit = {};  // of every stage; empty: bytes
    bool terminal = false;
    std::function<int()> columns = {};   // of the terminal, asked for at each redraw
    std::function<double()> clock = {};  // seconds, monotonic
  };

  // To stderr, as whatever stderr is; counting bytes, or what `unit` names.
  explicit ProgressDisplay(std::string unit = {});
  explicit ProgressDisplay(Options options);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay() { finish(); }

  ProgressFn function();
  // Ends the current stage's line with its summary. Again: does nothing.
  void finish();

 private:
  void update(const ProgressUpdate& update);
  void draw();

  Options options_;
  StageProgress stage_;  // empty name: none yet
  double began_ = 0;
  double drawn_ = 0;    // when the last line was written
  bool shown_ = false;  // the current stage has been drawn
};

}  // namespace penstock
