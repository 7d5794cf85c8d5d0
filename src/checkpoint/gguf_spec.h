// A GGUF model's metadata as a ModelSpec. Keys and what their absence means: docs/models.md.
#pragma once

#include <span>

#include "base/result.h"
#include "checkpoint/gguf_files.h"
#include "checkpoint/model_spec.h"

namespace penstock {

// What the keys leave open is taken from the tensors: biases, norms and a separate head exist where
// their tensors do. An architecture or rope type not known here is kUnsupported, with those that
// are.
Result<ModelSpec> gguf_spec(std::span<const GgufFile> files, const GgufModel& model);

}  // namespace penstock
