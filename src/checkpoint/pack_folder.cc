#include "checkpoint/pack_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/pack_index.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockName = "writer.lock";
constexpr int kMaxAttempts = 100;

Result<fs::path> absolute_target(const fs::path& target) {
  std::error_code code;
  fs::path absolute = fs::absolute(target, code).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "DIR/"
  if (code || !absolute.has_filename()) {
    return fail(ErrorKind::kInvalidArgument, "{:?} is not a folder that a pack can be written to",
                target.string());
  }
  if (!fs::is_directory(absolute.parent_path(), code)) {
    return fail(ErrorKind::kNotFound, "cannot write {}: {} is not a folder", absolute.string(),
                absolute.parent_path().string());
  }
  return absolute;
}

Result<void> check_target(const fs::path& target, IfExists if_exists) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(target, code))) return {};
  if (fs::is_directory(target, code) && fs::is_empty(target, code)) return {};
  if (!is_pack(target)) {
    return fail(ErrorKind::kInvalidArgument, "{} exists and is not a pack: it is left alone",
                target.string());
  }
  if (if_exists == IfExists::kReplace) return {};
  return std::unexpected(Error{.kind = ErrorKind::kInvalidArgument,
                               .message = fmt::format("{} exists", target.string()),
                               .hint = "--force replaces it"});
}

// Whether `name` is what create() calls a folder for `target`.
bool is_partial_of(const fs::path& target, std::string_view name) {
  const std::string prefix = target.filename().string() + ".partial-";
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return name.size() == 8 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Removes `folder` if its writer is gone. A writer makes the folder, then the lock file, then
// everything else, and the lock file is the last thing seen under this name. So
//   empty                    a writer about to lock it, which will notice and start again
//   not empty, no lock file  the old pack that a writer had replaced when it was killed
//   lock file not locked     a killed writer's, or one about to lock it, which will notice
bool remove_if_abandoned(const fs::path& folder) {
  std::error_code code;
  if (fs::is_directory(folder, code) && fs::remove(folder, code)) return true;
  auto lock = FileLock::try_acquire(folder / kLockName, FileLock::Mode::kExistingOnly);
  if (!lock && lock.error().kind != ErrorKind::kNotFound) return false;
  if (lock && !lock->has_value()) return false;
  return fs::remove_all(folder, code) > 0 && !code;
}

std::vector<fs::path> remove_abandoned(const fs::path& target) {
  std::vector<fs::path> candidates;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), code)) {
    if (is_partial_of(target, entry.path().filename().string())) candidates.push_back(entry.path());
  }
  std::erase_if(candidates, [](const fs::path& path) { return !remove_if_abandoned(path); });
  std::ranges::sort(candidates);
  return candidates;
}

// The lock of a new folder; nullopt when another writer took the folder for an abandoned one.
Result<std::optional<FileLock>> lock_new_folder(const fs::path& folder) {
  auto lock = FileLock::try_acquire(folder / kLockName, FileLock::Mode::kCreate);
  if (!lock && lock.error().kind == ErrorKind::kNotFound) return std::nullopt;
  if (!lock) return lock;
  if (lock->has_value() && !(*lock)->is_at(folder / kLockName)) return std::nullopt;
  return lock;
}

}  // namespace

Result<PartialFolder> PartialFolder::create(const fs::path& target, IfExists if_exists) {
  PENSTOCK_ASSIGN(const fs::path absolute, absolute_target(target));
  PENSTOCK_TRY(check_target(absolute, if_exists));
  std::vector<fs::path> removed = remove_abandoned(absolute);

  std::random_device random;
  for (int i = 0; i < kMaxAttempts; ++i) {
    fs::path path = absolute;
    path += fmt::format(".partial-{:08x}", static_cast<uint32_t>(random()));
    std::error_code code;
    if (!fs::create_directory(path, code)) {
      if (code) return std::unexpected(Error::from_errno(code.value(), "create", path));
      continue;  // another writer has this name
    }
    PENSTOCK_ASSIGN(std::optional<FileLock> lock, lock_new_folder(path));
    if (!lock) continue;
    PartialFolder folder(absolute, if_exists, std::move(path), *std::move(lock));
    folder.removed_ = std::move(removed);
    return folder;
  }
  return fail(ErrorKind::kIo, "cannot find a free temporary name beside {}", absolute.string());
}

PartialFolder::PartialFolder(PartialFolder&& other) noexcept
    : target_(std::move(other.target_)),
      if_exists_(other.if_exists_),
      path_(std::move(other.path_)),
      lock_(std::move(other.lock_)),
      removed_(std::move(other.removed_)) {
  other.lock_.reset();
}

PartialFolder::~PartialFolder() {
  if (!lock_) return;
  std::error_code ignored;  // what stays is abandoned, and the next writer removes it
  fs::remove_all(path_, ignored);
}

bool PartialFolder::replaces() const {
  return if_exists_ == IfExists::kReplace && is_pack(target_);
}

Result<void> PartialFolder::commit() {
  PENSTOCK_TRY(sync_folder(path_));
  const bool replaced = replaces();
  std::error_code code;
  if (replaced) {
    PENSTOCK_TRY(swap_names(path_, target_));
  } else {
    fs::rename(path_, target_, code);  // onto nothing or an empty folder; else it fails
    if (code) return std::unexpected(Error::from_errno(code.value(), "create", target_));
  }
  fs::remove(target_ / kLockName, code);
  lock_.reset();
  PENSTOCK_TRY(sync_folder(target_));
  PENSTOCK_TRY(sync_folder(target_.parent_path()));
  if (replaced) fs::remove_all(path_, code);
  return {};
}

}  // namespace penstock
