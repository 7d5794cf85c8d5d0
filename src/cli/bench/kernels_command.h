// `penstock bench kernels`: every operation beside what the machine can do.
#pragma once

#include "cli/command.h"

namespace penstock {

// Adds it to `bench`, whose own options do not go with it and must be there already. When the
// command line names it, `action` becomes what it does.
CLI::App* add_bench_kernels_command(CLI::App& bench, Action& action);

}  // namespace penstock
