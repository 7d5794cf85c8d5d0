#include "os/linux/labelled.h"

#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>

namespace penstock {

std::optional<uint64_t> read_labelled(const std::filesystem::path& path, std::string_view label,
                                      int base) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    uint64_t number = 0;
    if (words >> word && word == label && words >> std::setbase(base) >> number) return number;
  }
  return std::nullopt;
}

}  // namespace penstock
