#include "os/lost_mapping.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace penstock {
namespace {

// Only what a signal handler may do: the mapping's file is not known here.
void say_and_end(int /*signal*/) {
  constexpr std::string_view kMessage =
      "\nerror: a mapped file lost bytes that are in use: it was cut short, or its disk cannot be "
      "read; replace a model by renaming the new one over it (--load read keeps weights in RAM)\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(1);
}

}  // namespace

void explain_lost_mappings() {
  struct sigaction action = {};
  action.sa_handler = say_and_end;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace penstock
