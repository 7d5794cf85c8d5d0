// The row store's home on disk: what a step needs is read in blocks of the disk, each once, many at
// a time, into a staging memory of fixed size.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"
#include "memory/row_store.h"
#include "os/direct_io.h"

namespace penstock {

// Rows are small reads at random places: many must be in flight for a disk to be busy.
inline constexpr ReadQueueOptions kRowReads = {.depth = 64};

// The table has been checked. `queue`: the store's own, or why there is none; tests bring theirs.
Result<std::unique_ptr<RowStore>> make_direct_rows(std::span<const std::filesystem::path> files,
                                                   RowTable table, size_t staging_bytes,
                                                   Result<std::unique_ptr<ReadQueue>> queue);

}  // namespace penstock
