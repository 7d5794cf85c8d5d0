// What a KV page's numbers follow from beside its tokens: pages outlive the process only for a
// later one that would compute the same.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/load.h"

namespace penstock {

// As text, equal for equal numbers: Penstock's version, the class and its instruction level, the
// model's spec, and its weights: by checksum where it is a pack, else by the files' names, sizes
// and times. A copy of the same file is another file: a mistake in that direction costs time only.
Result<std::string> kv_identity(const Checkpoint& checkpoint, const LoadReport& report);

}  // namespace penstock
