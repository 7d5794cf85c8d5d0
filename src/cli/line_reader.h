// Lines from a person, with editing and history, or from whatever standard input is.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace penstock {

class LineReader {
 public:
  virtual ~LineReader() = default;
  // The next line without its end; nullopt when there are no more (Ctrl-D on an empty line).
  virtual std::optional<std::string> read() = 0;
};

// On a terminal: shows `prompt` and keeps its history in `history_file`, which only its owner can
// read. Elsewhere: plain lines, no prompt. One at a time.
std::unique_ptr<LineReader> make_line_reader(const std::string& prompt,
                                             const std::filesystem::path& history_file);

// Where `chat` keeps its history: below XDG_STATE_HOME, or ~/.local/state.
std::filesystem::path chat_history_file();

}  // namespace penstock
