#include "cli/pack_verifier.h"

#include <utility>

#include "checkpoint/pack.h"

namespace penstock {

PackVerifier::PackVerifier(std::optional<Checkpoint> pack,
                           std::function<void(const Error&)> on_damage) {
  if (!pack) return;
  thread_ = std::jthread(
      [pack = *std::move(pack), on_damage = std::move(on_damage)](std::stop_token stop) {
        const Result<void> verified = verify_pack(pack, /*progress=*/{}, stop);
        if (!verified && !stop.stop_requested()) on_damage(verified.error());
      });
}

}  // namespace penstock
