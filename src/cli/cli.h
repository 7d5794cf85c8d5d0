// The command line: finds the command, runs it, and turns its error into a message and an exit
// code.
#pragma once

namespace penstock {

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Returns the exit code: 0, kExitFailure or kExitUsage.
int run_cli(int argc, const char* const* argv);

}  // namespace penstock
