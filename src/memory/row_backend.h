// Where a table of rows lives.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock {

enum class RowBackend : uint8_t {
  kNone,    // the model has no table of rows
  kPinned,  // in RAM, page-locked as far as a driver grants it
  kMmap,    // mapped: in the page cache, with RAM enough to stay there
  kDirect,  // on disk, what a step needs read past the page cache
};

constexpr std::string_view to_string(RowBackend backend) {
  switch (backend) {
    case RowBackend::kNone:
      return "none";
    case RowBackend::kPinned:
      return "pinned";
    case RowBackend::kMmap:
      return "mmap";
    case RowBackend::kDirect:
      return "direct";
  }
  return "";
}

}  // namespace penstock
