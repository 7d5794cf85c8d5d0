// A pack in the making: a folder filled under a temporary name beside its target and put in place
// whole, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/output.h"

namespace penstock {

enum class IfExists : uint8_t { kRefuse, kReplace };

// Move-only. The folder is called TARGET.partial-XXXXXXXX while it is written; a lock inside says
// that its writer lives, so what a killed writer left is recognised and removed by the next one.
class PartialFolder {
 public:
  // Refuses a target that exists (an empty folder may be filled), unless it is a pack to replace;
  // anything else is never removed. `target` is made absolute, and its parent must exist.
  static Result<PartialFolder> create(const std::filesystem::path& target, IfExists if_exists);

  PartialFolder(PartialFolder&& other) noexcept;
  ~PartialFolder();  // removes the folder unless it was committed

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& target() const { return target_; }
  // What killed writers of the same target had left, now removed.
  const std::vector<std::filesystem::path>& removed() const { return removed_; }

  // Forces the folder to the disk (its files must be synced already) and gives it its name.
  Result<void> commit();

 private:
  PartialFolder(std::filesystem::path target, IfExists if_exists, std::filesystem::path path,
                FileLock lock)
      : target_(std::move(target)),
        if_exists_(if_exists),
        path_(std::move(path)),
        lock_(std::move(lock)) {}
  bool replaces() const;

  std::filesystem::path target_;
  IfExists if_exists_;
  std::filesystem::path path_;
  std::optional<FileLock> lock_;  // held while path_ is ours to remove
  std::vector<std::filesystem::path> removed_;
};

}  // namespace penstock
