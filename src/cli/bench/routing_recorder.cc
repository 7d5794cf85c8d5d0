#include "cli/bench/routing_recorder.h"

#include "os/output.h"

namespace penstock {

Result<RoutingRecorder> RoutingRecorder::make(const Checkpoint& checkpoint,
                                              std::filesystem::path path) {
  const ModelSpec& spec = checkpoint.spec;
  if (spec.moe.n_experts == 0) {
    return fail(ErrorKind::kInvalidArgument, "{} has no routed experts for --record-routing",
                checkpoint.path.string());
  }
  RoutingRecorder recorder(RoutingRecord({.model = checkpoint.name,
                                          .n_layers = spec.n_layers(),
                                          .n_experts = static_cast<int>(spec.moe.n_experts),
                                          .top_k = static_cast<int>(spec.moe.top_k)}),
                           std::move(path));
  PENSTOCK_TRY(recorder.write());
  return recorder;
}

Result<void> RoutingRecorder::write() const { return write_whole_file(path_, record_.text()); }

}  // namespace penstock
