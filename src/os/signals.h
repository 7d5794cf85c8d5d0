// Signals as values: while a catcher lives, the signals it names do not end the program but are
// told to whoever asks. On Windows Ctrl+C is SIGINT; Ctrl+Break, the closing console, logging off
// and shutting down are SIGTERM, and the last three end the process a few seconds later.
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <vector>

namespace penstock {

// At most one lives at a time: what a signal does belongs to the process. Thread-safe.
class SignalCatcher {
 public:
  explicit SignalCatcher(std::vector<int> signals);
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;
  ~SignalCatcher();  // the signals do again what they did before

  // Waits for the next signal and returns its number.
  int wait();
  // The next signal, if one has come.
  std::optional<int> take();

 private:
  struct Before;  // what the signals did

  std::vector<int> signals_;
  std::unique_ptr<Before> before_;
};

}  // namespace penstock
