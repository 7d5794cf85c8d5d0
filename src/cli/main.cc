// The program's entry.
#include <vector>

#include "cli/api_keys.h"
#include "cli/cli.h"

int main(int argc, char** argv) {
  const auto arguments = penstock::take_arguments(argc, argv);
  std::vector<const char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.c_str());
  return penstock::run_cli(argc, pointers.data());
}
