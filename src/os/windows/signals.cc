#include "os/signals.h"

#include <windows.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/check.h"

namespace penstock {
namespace {

// What the console's thread may touch, from before its handler is installed to after it is gone.
struct Arrived {
  std::mutex mutex;
  std::condition_variable has_some;
  std::deque<int> signals;
  std::vector<int> caught;
  bool is_caught = false;
};
Arrived& arrived() {
  static Arrived all;
  return all;
}

void put(int signal) {
  {
    const std::scoped_lock lock(arrived().mutex);
    arrived().signals.push_back(signal);
  }
  arrived().has_some.notify_all();
}

BOOL WINAPI on_console_event(DWORD event) {
  const int signal = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
  {
    const std::scoped_lock lock(arrived().mutex);
    if (std::ranges::find(arrived().caught, signal) == arrived().caught.end()) return FALSE;
  }
  put(signal);
  // Windows ends the process when this returns for a console that closes, and after five seconds
  // where it does not: the program ends itself meanwhile.
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) ::Sleep(INFINITE);
  return TRUE;
}

// The C library's, for raise(): it forgets a handler once it is called.
void on_raise(int signal) {
  std::signal(signal, on_raise);
  put(signal);
}

}  // namespace

struct SignalCatcher::Before {
  std::vector<void (*)(int)> handlers;  // of signals_[i]
};

SignalCatcher::SignalCatcher(std::vector<int> signals)
    : signals_(std::move(signals)), before_(std::make_unique<Before>()) {
  {
    const std::scoped_lock lock(arrived().mutex);
    PENSTOCK_CHECK(!arrived().is_caught, "one SignalCatcher at a time");
    arrived().is_caught = true;
    arrived().caught = signals_;
  }
  for (const int signal : signals_) before_->handlers.push_back(std::signal(signal, on_raise));
  // The last handler installed is asked first, so the C library's does not see what this one takes.
  PENSTOCK_CHECK(::SetConsoleCtrlHandler(on_console_event, TRUE) != FALSE,
                 "no handler for console events");
}

SignalCatcher::~SignalCatcher() {
  ::SetConsoleCtrlHandler(on_console_event, FALSE);
  for (size_t i = 0; i < signals_.size(); ++i) std::signal(signals_[i], before_->handlers[i]);
  const std::scoped_lock lock(arrived().mutex);
  arrived().signals.clear();
  arrived().caught.clear();
  arrived().is_caught = false;
}

int SignalCatcher::wait() {
  std::unique_lock lock(arrived().mutex);
  arrived().has_some.wait(lock, [] { return !arrived().signals.empty(); });
  const int signal = arrived().signals.front();
  arrived().signals.pop_front();
  return signal;
}

std::optional<int> SignalCatcher::take() {
  const std::scoped_lock lock(arrived().mutex);
  if (arrived().signals.empty()) return std::nullopt;
  const int signal = arrived().signals.front();
  arrived().signals.pop_front();
  return signal;
}

}  // namespace penstock
