#include "cli/bench/routing_recorder.h"

#include <cerrno>
#include <fstream>

namespace penstock {

Result<RoutingRecorder> RoutingRecorder::make(const Checkpoint& checkpoint) {
  const ModelSpec& spec = checkpoint.spec;
  if (spec.moe.n_experts == 0) {
    return fail(ErrorKind::kInvalidArgument, "{} has no routed experts for --record-routing",
                checkpoint.path.string());
  }
  return RoutingRecorder(RoutingRecord({.model = checkpoint.name,
                                        .n_layers = spec.n_layers(),
                                        .n_experts = static_cast<int>(spec.moe.n_experts),
                                        .top_k = static_cast<int>(spec.moe.top_k)}));
}

Result<void> RoutingRecorder::write(const std::filesystem::path& path) const {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << record_.text();
  file.close();
  if (!file.fail()) return {};
  return std::unexpected(Error::from_errno(errno != 0 ? errno : EIO, "write", path));
}

}  // namespace penstock
