// What the thread backend of a ReadQueue asks of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/direct_io.h"

namespace penstock {

// One read: bytes, which may be fewer than asked; 0 at the file's end; or -errno.
int64_t read_some(const DirectFile& file, uint64_t offset, std::span<std::byte> out);

// Signals belong to the program's own threads: the calling one takes none from now on.
void take_no_signals();

}  // namespace penstock
