// The program's entry: hands the command line to the CLI room.
#include "base/version.h"

#include <cstdio>

int main() {
  std::printf("penstock %s\n", penstock::version().data());
  return 0;
}
