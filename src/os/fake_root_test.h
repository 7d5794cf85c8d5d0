// A made-up / for tests: the few files below it that say what limits a process.
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace penstock {

// A directory of its own, gone at the end.
class FakeRoot {
 public:
  FakeRoot() {
    std::random_device random;
    do {
      root_ = std::filesystem::temp_directory_path() /
              ("penstock_root_" + std::to_string(random()) + std::to_string(random()));
    } while (!std::filesystem::create_directory(root_));
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  // `path` without a leading /.
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const std::filesystem::path& path() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace penstock
