#include "checkpoint/checkpoint.h"

#include "checkpoint/gguf_checkpoint.h"
#include "checkpoint/hf_checkpoint.h"
#include "checkpoint/pack.h"
#include "checkpoint/pack_index.h"
#include "os/file.h"

namespace penstock {

Result<Checkpoint> open_checkpoint(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return open_gguf(path);
  if (!path_exists(path)) {
    return fail(ErrorKind::kNotFound, "there is no file or folder {}", path.string());
  }
  if (is_pack(path)) return open_pack(path);
  if (path_exists(path / "config.json")) return open_hf(path);
  return fail(
      ErrorKind::kNotFound,
      "{} is no model: expected a .gguf file, or a folder with penstock.json or config.json",
      path.string());
}

}  // namespace penstock
