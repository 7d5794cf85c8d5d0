// The program's entry.
#include <vector>

#include "cli/api_keys.h"
#include "cli/cli.h"
#include "os/lost_mapping.h"

int main(int argc, char** argv) {
  penstock::explain_lost_mappings();
  const auto arguments = penstock::take_arguments(argc, argv);
  std::vector<const char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.c_str());
  return penstock::run_cli(argc, pointers.data());
}
