#include "text/jinja/meter.h"

#include "base/units.h"

namespace penstock {

Result<void> JinjaMeter::has_room(size_t count, size_t bytes_each) const {
  const size_t left = limits_.max_memory_bytes - std::min(live_bytes_, limits_.max_memory_bytes);
  if (count <= left / std::max<size_t>(bytes_each, 1)) return {};
  return fail(ErrorKind::kExhausted, "the template's values would need more than {}",
              format_bytes(limits_.max_memory_bytes));
}

std::unexpected<Error> JinjaMeter::exhausted() const {
  if (too_deep_) {
    return fail(ErrorKind::kExhausted, "values are nested more than {} deep", limits_.max_depth);
  }
  if (live_bytes_ > limits_.max_memory_bytes) {
    return fail(ErrorKind::kExhausted, "the template's values need more than {}",
                format_bytes(limits_.max_memory_bytes));
  }
  return fail(ErrorKind::kExhausted, "the template takes more than {} steps",
              format_count(limits_.max_steps));
}

}  // namespace penstock
