#include "os/read_backend.h"

namespace penstock {

Result<std::unique_ptr<ReadBackend>> make_uring_backend(size_t /*depth*/) {
  return fail(ErrorKind::kUnsupported, "Windows has no io_uring");
}

}  // namespace penstock
