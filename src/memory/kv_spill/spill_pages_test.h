// For tests of spilled KV pages: pages that say whose they are, and files that fail.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "memory/kv_spill/chain_key.h"
#include "os/memory.h"
#include "os/private_file.h"

namespace penstock {

// A folder of the running test's own, gone at the end.
class SpillFolder {
 public:
  SpillFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("kv_spill_") + test->test_suite_name() + "_" + test->name());
    std::filesystem::remove_all(path_);
  }
  SpillFolder(const SpillFolder&) = delete;
  SpillFolder& operator=(const SpillFolder&) = delete;
  ~SpillFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline ChainKey numbered_key(uint64_t i) { return {.low = i * 0x9E3779B97F4A7C15U, .high = i}; }

// What the page of a key holds: any other bytes are wrong.
inline std::vector<std::byte> page_of(const ChainKey& key, size_t n) {
  std::mt19937_64 random(key.low ^ key.high);
  std::vector<std::byte> page(n);
  for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&page[i], &word, std::min(sizeof word, n - i));
  }
  return page;
}

// A file whose writes a test may fail: `fails` is asked before each, and half of one that fails is
// written all the same.
class FailingFile final : public PrivateFile {
 public:
  FailingFile(std::unique_ptr<PrivateFile> inner, std::function<bool()> fails)
      : inner_(std::move(inner)), fails_(std::move(fails)) {}

  Result<uint64_t> size() const override { return inner_->size(); }
  Result<void> resize(uint64_t bytes) override { return inner_->resize(bytes); }
  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    if (!fails_()) return inner_->write(offset, bytes);
    PENSTOCK_TRY(inner_->write(offset, bytes.first(bytes.size() / 2)));
    return std::unexpected(Error::from_errno(ENOSPC, "write", "the test's file"));
  }
  Result<void> read(uint64_t offset, std::span<std::byte> out) const override {
    return inner_->read(offset, out);
  }

 private:
  std::unique_ptr<PrivateFile> inner_;
  std::function<bool()> fails_;
};

inline OpenPrivateFile failing_files(std::function<bool()> fails) {
  return
      [fails = std::move(fails)](const std::filesystem::path& path,
                                 WriteThrough /*through*/) -> Result<std::unique_ptr<PrivateFile>> {
        // Half of a page is no direct write.
        PENSTOCK_ASSIGN(auto file, open_private_file(path, WriteThrough::kPageCache));
        return std::make_unique<FailingFile>(std::move(file), fails);
      };
}

}  // namespace penstock
