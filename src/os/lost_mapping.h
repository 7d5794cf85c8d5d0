// Says what happened when a mapped file no longer has the bytes that it had, where the system would
// end the program without a word.
#pragma once

namespace penstock {

// From now on a touch of a mapping that its file no longer covers, or that the disk cannot give,
// ends the program with one line on standard error and exit status 1. For a program's start:
// whoever caught that signal before, a sanitizer say, no longer does.
void explain_lost_mappings();

}  // namespace penstock
