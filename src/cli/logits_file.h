// Writes logits as a safetensors file, rows as they come: tensors "p0", "p1", ... of f32 [rows,
// cols].
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "base/result.h"

namespace penstock {

// Under a temporary name until close(): a file of that name is whole, or is what it was before.
class LogitsFile {
 public:
  // rows[i]: of tensor "p{i}".
  static Result<LogitsFile> create(const std::filesystem::path& path, std::span<const int64_t> rows,
                                   int64_t cols);
  LogitsFile(LogitsFile&&) noexcept = default;
  ~LogitsFile();

  // The next values, in order: all of p0, then all of p1, ...
  Result<void> write(std::span<const float> values);
  Result<void> close();

 private:
  LogitsFile(std::filesystem::path path, std::ofstream file, uint64_t values_left)
      : path_(std::move(path)), file_(std::move(file)), values_left_(values_left) {}

  std::filesystem::path path_;
  std::ofstream file_;
  uint64_t values_left_;
};

}  // namespace penstock
