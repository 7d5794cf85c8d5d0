#include "os/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace penstock {
namespace {

// The one thing a handler may touch: a pipe, from before its handler is installed to after it is
// gone. [0] is read, [1] written.
std::array<int, 2> signal_pipe = {-1, -1};

void write_signal(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  // A full pipe already holds more signals than anyone will ask for.
  [[maybe_unused]] const ssize_t n = ::write(signal_pipe[1], &byte, 1);
  errno = error;
}

}  // namespace

struct SignalCatcher::Before {
  std::vector<struct sigaction> actions;  // of signals_[i]
};

SignalCatcher::SignalCatcher(std::vector<int> signals)
    : signals_(std::move(signals)), before_(std::make_unique<Before>()) {
  PENSTOCK_CHECK(signal_pipe[0] < 0, "one SignalCatcher at a time");
  PENSTOCK_CHECK(::pipe2(signal_pipe.data(), O_CLOEXEC | O_NONBLOCK) == 0, "no pipe for signals");
  for (const int signal : signals_) {
    struct sigaction action = {};
    action.sa_handler = write_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, &before_->actions.emplace_back());
  }
}

SignalCatcher::~SignalCatcher() {
  for (size_t i = 0; i < signals_.size(); ++i) {
    ::sigaction(signals_[i], &before_->actions[i], nullptr);
  }
  for (int& end : signal_pipe) ::close(std::exchange(end, -1));
}

int SignalCatcher::wait() {
  for (;;) {
    if (const auto signal = take()) return *signal;
    pollfd readable = {.fd = signal_pipe[0], .events = POLLIN, .revents = 0};
    ::poll(&readable, 1, /*timeout=*/-1);
  }
}

std::optional<int> SignalCatcher::take() {
  unsigned char byte = 0;
  if (::read(signal_pipe[0], &byte, 1) != 1) return std::nullopt;
  return byte;
}

}  // namespace penstock
