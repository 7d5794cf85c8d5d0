#include "checkpoint/checkpoint.h"

#include "checkpoint/gguf_checkpoint.h"

namespace penstock {

Result<Checkpoint> open_checkpoint(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return open_gguf(path);
  return fail(ErrorKind::kUnsupported, "{} is no .gguf file: nothing else can be opened yet",
              path.string());
}

}  // namespace penstock
