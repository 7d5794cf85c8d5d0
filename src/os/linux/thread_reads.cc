#include "os/thread_reads.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace penstock {

int64_t read_some(const DirectFile& file, uint64_t offset, std::span<std::byte> out) {
  const ssize_t got =
      ::pread(static_cast<int>(file.handle()), out.data(), out.size(), static_cast<off_t>(offset));
  return got < 0 ? -errno : got;
}

void take_no_signals() {
  sigset_t all = {};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace penstock
