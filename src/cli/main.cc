// The program's entry.
#include "cli/cli.h"

int main(int argc, char** argv) { return penstock::run_cli(argc, argv); }
