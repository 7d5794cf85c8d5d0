#include "os/windows/file_io.h"

#include <windows.h>

#include <algorithm>

#include "os/windows/last_error.h"

namespace penstock {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;  // in one call, whose count has 32 bits

HANDLE handle_of(FileHandle file) { return reinterpret_cast<HANDLE>(file); }

// What an overlapped call waits for; a handle's own event would be every thread's.
HANDLE event_of_thread() {
  struct Event {
    HANDLE handle = ::CreateEventW(nullptr, /*bManualReset=*/TRUE, FALSE, nullptr);
    ~Event() {
      if (handle != nullptr) ::CloseHandle(handle);
    }
  };
  thread_local const Event event;
  return event.handle;
}

OVERLAPPED overlapped_at(uint64_t offset) {
  OVERLAPPED at = {};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  at.hEvent = event_of_thread();
  return at;
}

// The error of a call that has been started, 0 when it ended well.
DWORD wait_for(FileHandle file, BOOL started, OVERLAPPED& at, DWORD& n) {
  if (started == FALSE && ::GetLastError() != ERROR_IO_PENDING) return ::GetLastError();
  return ::GetOverlappedResult(handle_of(file), &at, &n, /*bWait=*/TRUE) != FALSE
             ? 0
             : ::GetLastError();
}

DWORD read_once(FileHandle file, uint64_t offset, std::span<std::byte> out, DWORD& n) {
  n = 0;
  OVERLAPPED at = overlapped_at(offset);
  if (at.hEvent == nullptr) return ERROR_NO_SYSTEM_RESOURCES;
  const auto wanted = static_cast<DWORD>(std::min(out.size(), kMaxBytes));
  const BOOL started = ::ReadFile(handle_of(file), out.data(), wanted, nullptr, &at);
  const DWORD code = wait_for(file, started, at, n);
  return code == ERROR_HANDLE_EOF ? 0 : code;
}

}  // namespace

int64_t read_some_at(FileHandle file, uint64_t offset, std::span<std::byte> out) {
  DWORD n = 0;
  const DWORD code = read_once(file, offset, out, n);
  return code == 0 ? static_cast<int64_t>(n) : -static_cast<int64_t>(errno_of(code));
}

Result<void> read_all_at(FileHandle file, uint64_t offset, std::span<std::byte> out,
                         const std::filesystem::path& path) {
  size_t done = 0;
  while (done < out.size()) {
    DWORD n = 0;
    if (const DWORD code = read_once(file, offset + done, out.subspan(done), n); code != 0) {
      return windows_error(code, "read", path);
    }
    if (n == 0) {
      return fail(ErrorKind::kIo, "{} is too short: wanted {} bytes from offset {}, got {}",
                  path.string(), out.size(), offset, done);
    }
    done += n;
  }
  return {};
}

Result<void> write_all_at(FileHandle file, std::span<const std::byte> bytes, uint64_t& offset,
                          std::string_view action, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    OVERLAPPED at = overlapped_at(offset);
    if (at.hEvent == nullptr) return windows_error(ERROR_NO_SYSTEM_RESOURCES, action, path);
    const auto wanted = static_cast<DWORD>(std::min(bytes.size(), kMaxBytes));
    DWORD n = 0;
    const BOOL started = ::WriteFile(handle_of(file), bytes.data(), wanted, nullptr, &at);
    if (const DWORD code = wait_for(file, started, at, n); code != 0) {
      return windows_error(code, action, path);
    }
    offset += n;
    bytes = bytes.subspan(n);
  }
  return {};
}

Result<uint64_t> file_bytes(FileHandle file, const std::filesystem::path& path) {
  LARGE_INTEGER bytes = {};
  if (::GetFileSizeEx(handle_of(file), &bytes) == FALSE) return last_error("examine", path);
  return static_cast<uint64_t>(bytes.QuadPart);
}

void close_file(FileHandle file) {
  if (file != kNoFile) ::CloseHandle(handle_of(file));
}

}  // namespace penstock
