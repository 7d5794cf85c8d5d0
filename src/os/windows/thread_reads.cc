#include "os/thread_reads.h"

#include "os/windows/file_io.h"

namespace penstock {

int64_t read_some(const DirectFile& file, uint64_t offset, std::span<std::byte> out) {
  return read_some_at(file.handle(), offset, out);
}

void take_no_signals() {}  // Windows starts a thread for each

}  // namespace penstock
