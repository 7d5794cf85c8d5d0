// What a stream is connected to: a person's terminal, and how wide it is, or something else.
#pragma once

#include <cstdio>

namespace penstock {

bool is_terminal(std::FILE* stream);

// Columns of the terminal behind `stream`; 80 when it is none or does not say.
int terminal_columns(std::FILE* stream);

}  // namespace penstock
