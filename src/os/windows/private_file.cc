#include "os/private_file.h"

#include <windows.h>

// After windows.h.
#include <aclapi.h>
#include <sddl.h>
#include <winioctl.h>

#include <system_error>
#include <utility>

#include "os/windows/file_io.h"
#include "os/windows/last_error.h"

namespace penstock {
namespace {

// Full access for the owner and for the system, nothing inherited. Move-free: lives for one call.
class OwnerOnly {
 public:
  OwnerOnly() {
    ::ConvertStringSecurityDescriptorToSecurityDescriptorW(L"D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)",
                                                           SDDL_REVISION_1, &descriptor_, nullptr);
    attributes_.nLength = sizeof(attributes_);
    attributes_.lpSecurityDescriptor = descriptor_;
  }
  OwnerOnly(const OwnerOnly&) = delete;
  OwnerOnly& operator=(const OwnerOnly&) = delete;
  ~OwnerOnly() { ::LocalFree(descriptor_); }

  bool is_there() const { return descriptor_ != nullptr; }
  SECURITY_ATTRIBUTES* attributes() { return &attributes_; }
  PSECURITY_DESCRIPTOR descriptor() const { return descriptor_; }

 private:
  PSECURITY_DESCRIPTOR descriptor_ = nullptr;
  SECURITY_ATTRIBUTES attributes_ = {};
};

class WindowsPrivateFile final : public PrivateFile {
 public:
  WindowsPrivateFile(HANDLE handle, std::filesystem::path path)
      : handle_(handle), path_(std::move(path)) {}
  WindowsPrivateFile(const WindowsPrivateFile&) = delete;
  WindowsPrivateFile& operator=(const WindowsPrivateFile&) = delete;
  ~WindowsPrivateFile() override { ::CloseHandle(handle_); }

  // What CreateFile left to do: an old file's rights, and that holes take no space.
  Result<void> set_up(const OwnerOnly& rights) const {
    if (::GetFileType(handle_) != FILE_TYPE_DISK) {
      return fail(ErrorKind::kInvalidData, "{} is no regular file", path_.string());
    }
    if (::SetKernelObjectSecurity(handle_, DACL_SECURITY_INFORMATION, rights.descriptor()) ==
        FALSE) {
      return last_error("set the rights of", path_);
    }
    DWORD n = 0;
    OVERLAPPED at = {};
    at.hEvent = ::CreateEventW(nullptr, TRUE, FALSE, nullptr);
    // A wish: FAT knows no such files.
    if (::DeviceIoControl(handle_, FSCTL_SET_SPARSE, nullptr, 0, nullptr, 0, nullptr, &at) ==
            FALSE &&
        ::GetLastError() == ERROR_IO_PENDING) {
      ::GetOverlappedResult(handle_, &at, &n, TRUE);
    }
    if (at.hEvent != nullptr) ::CloseHandle(at.hEvent);
    return {};
  }

  Result<uint64_t> size() const override { return file_bytes(file(), path_); }

  Result<void> resize(uint64_t bytes) override {
    FILE_END_OF_FILE_INFO end = {};
    end.EndOfFile.QuadPart = static_cast<LONGLONG>(bytes);
    if (::SetFileInformationByHandle(handle_, FileEndOfFileInfo, &end, sizeof(end)) == FALSE) {
      return last_error("resize", path_);
    }
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    return write_all_at(file(), bytes, offset, "write", path_);
  }

  Result<void> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_all_at(file(), offset, out, path_);
  }

 private:
  FileHandle file() const { return reinterpret_cast<FileHandle>(handle_); }

  HANDLE handle_;
  std::filesystem::path path_;
};

}  // namespace

Result<void> make_private_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (const auto above = folder.parent_path(); !above.empty()) {
    std::filesystem::create_directories(above, error);
    if (error) return windows_error(static_cast<uint32_t>(error.value()), "create", above);
  }
  OwnerOnly rights;
  if (!rights.is_there()) return last_error("describe the rights of", folder);
  if (::CreateDirectoryW(folder.c_str(), rights.attributes()) != FALSE) return {};
  const DWORD code = ::GetLastError();
  if (code == ERROR_ALREADY_EXISTS && std::filesystem::is_directory(folder, error)) return {};
  return windows_error(code, "create", folder);
}

Result<std::unique_ptr<PrivateFile>> open_private_file(const std::filesystem::path& path,
                                                       WriteThrough through) {
  OwnerOnly rights;
  if (!rights.is_there()) return last_error("describe the rights of", path);
  const DWORD direct = through == WriteThrough::kDirect ? FILE_FLAG_NO_BUFFERING : 0;
  const HANDLE handle =
      ::CreateFileW(path.c_str(), GENERIC_READ | GENERIC_WRITE | WRITE_DAC,
                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, rights.attributes(),
                    OPEN_ALWAYS, FILE_FLAG_OVERLAPPED | direct, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return last_error("open", path);
  auto file = std::make_unique<WindowsPrivateFile>(handle, path);
  PENSTOCK_TRY(file->set_up(rights));
  return file;
}

}  // namespace penstock
