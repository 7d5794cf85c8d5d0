#include "os/cpu_name.h"

#include <windows.h>

#include <array>

namespace penstock {

std::string cpu_name() {
  std::array<char, 256> text = {};
  DWORD bytes = static_cast<DWORD>(text.size() - 1);
  if (::RegGetValueA(HKEY_LOCAL_MACHINE, "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                     "ProcessorNameString", RRF_RT_REG_SZ, nullptr, text.data(), &bytes) != 0) {
    return "unknown";
  }
  const std::string name = text.data();
  const size_t begin = name.find_first_not_of(' ');
  return begin == std::string::npos ? "unknown" : name.substr(begin);
}

}  // namespace penstock
