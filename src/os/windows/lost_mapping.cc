#include "os/lost_mapping.h"

#include <windows.h>

#include <string_view>

namespace penstock {
namespace {

// Windows refuses to cut a mapped file short; what is left is a disk that cannot be read.
LONG WINAPI say_and_end(EXCEPTION_POINTERS* what) {
  if (what->ExceptionRecord->ExceptionCode != EXCEPTION_IN_PAGE_ERROR) {
    return EXCEPTION_CONTINUE_SEARCH;
  }
  constexpr std::string_view kMessage =
      "\nerror: a mapped file lost bytes that are in use: its disk cannot be read (--load read "
      "keeps "
      "weights in RAM)\n";
  DWORD n = 0;
  ::WriteFile(::GetStdHandle(STD_ERROR_HANDLE), kMessage.data(),
              static_cast<DWORD>(kMessage.size()), &n, nullptr);
  ::TerminateProcess(::GetCurrentProcess(), 1);
  return EXCEPTION_CONTINUE_SEARCH;
}

}  // namespace

void explain_lost_mappings() { ::SetUnhandledExceptionFilter(say_and_end); }

}  // namespace penstock
