// Checkpoint files made and changed by tests, with readers of their own so that no test trusts what
// it tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace penstock {

inline const std::filesystem::path kGoldenFolder = PENSTOCK_SOURCE_DIR "/tests/golden";

// A folder of one test's own below the temporary one, removed at its end. The process id keeps two
// runs of the tests on one machine apart.
class TempFolder {
 public:
  TempFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("checkpoint_") + std::to_string(::getpid()) + "_" +
             test->test_suite_name() + "_" + test->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  // A writable copy of a golden model's folder, below this one.
  std::filesystem::path copy_golden(const std::string& name) const {
    const auto to = path_ / std::filesystem::path(name).filename();
    std::filesystem::create_directories(to);
    for (const auto& entry : std::filesystem::directory_iterator(kGoldenFolder / name)) {
      std::filesystem::copy_file(entry.path(), to / entry.path().filename());
      std::filesystem::permissions(to / entry.path().filename(),
                                   std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
    return to;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// "length | header | data" as it stands, right or wrong.
inline std::string raw_safetensors(const std::string& header, const std::string& data) {
  return little_endian<uint64_t>(header.size()) + header + data;
}

// A well-formed safetensors file to be changed tensor by tensor.
struct SafetensorsFile {
  struct Tensor {
    std::string dtype;
    std::vector<uint64_t> shape;
    std::string data;
  };
  std::map<std::string, Tensor> tensors;

  static SafetensorsFile load(const std::filesystem::path& path) {
    const std::string bytes = read_bytes(path);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const Json header = Json::parse(bytes.substr(8, length));
    SafetensorsFile file;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto begin = entry["data_offsets"][0].get<size_t>();
      const auto end = entry["data_offsets"][1].get<size_t>();
      file.tensors[name] = {entry["dtype"], entry["shape"],
                            bytes.substr(8 + length + begin, end - begin)};
    }
    return file;
  }
  std::string bytes() const {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
      data += tensor.data;
    }
    return raw_safetensors(header.dump(), data);
  }
  void save(const std::filesystem::path& path) const {
    std::ofstream(path, std::ios::binary) << bytes();
  }
};

inline std::string gguf_string(const std::string& text) {
  return little_endian<uint64_t>(text.size()) + text;
}
inline std::string gguf_key(const std::string& name, uint32_t type, const std::string& value) {
  return gguf_string(name) + little_endian(type) + value;
}
inline std::string gguf_key(const std::string& name, uint32_t value) {
  return gguf_key(name, 4, little_endian(value));
}
inline std::string gguf_key(const std::string& name, float value) {
  return gguf_key(name, 6, little_endian(value));
}
inline std::string gguf_key(const std::string& name, const char* value) {
  return gguf_key(name, 8, gguf_string(value));
}
inline std::string gguf_info(const std::string& name, const std::vector<uint64_t>& dims,
                             uint32_t type, uint64_t offset) {
  std::string info = gguf_string(name) + little_endian(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) info += little_endian(dim);
  return info + little_endian(type) + little_endian(offset);
}

// A well-formed GGUF file, unless the parts given are wrong.
struct GgufFileParts {
  uint32_t version = 3;
  std::vector<std::string> keys = {};   // gguf_key()
  std::vector<std::string> infos = {};  // gguf_info()
  std::string data = {};
  uint64_t alignment = 32;

  // Adds a tensor with its bytes at the next free place.
  void add(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
           const std::string& bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    infos.push_back(gguf_info(name, dims, type, data.size()));
    data += bytes;
  }
  std::string bytes() const {
    std::string file = "GGUF" + little_endian(version) + little_endian<uint64_t>(infos.size()) +
                       little_endian<uint64_t>(keys.size());
    for (const std::string& key : keys) file += key;
    for (const std::string& info : infos) file += info;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }
};

}  // namespace penstock
