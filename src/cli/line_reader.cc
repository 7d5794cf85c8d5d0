#include "cli/line_reader.h"

#include <fmt/format.h>
#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <iostream>
#include <system_error>
#include <utility>

#include "os/environment.h"
#include "os/terminal.h"

namespace penstock {
namespace {

constexpr int kHistoryLines = 1000;

class PlainReader : public LineReader {
 public:
  std::optional<std::string> read() override {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
};

// libedit's emacs keys. Ctrl-C throws the line away; the terminal must not turn it into a signal
// while a line is being edited, or the line would stay.
class EditingReader : public LineReader {
 public:
  EditingReader(std::string prompt, std::filesystem::path history_file)
      : prompt_(std::move(prompt)),
        history_file_(std::move(history_file)),
        edit_(el_init("penstock", stdin, stdout, stderr)),
        history_(history_init()) {
    // How wide a character is.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before the first question no thread reads the locale
    std::setlocale(LC_CTYPE, "");
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &EditingReader::prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    // The wide call keeps its strings; the other copies them, and frees them never.
    el_wset(edit_, EL_ADDFN, L"drop-line", L"Throw the line away", &EditingReader::drop_line);
    el_set(edit_, EL_BIND, "^C", "drop-line", nullptr);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    load_history();
  }

  ~EditingReader() override {
    save_history();
    el_end(edit_);
    history_end(history_);
  }

  std::optional<std::string> read() override {
    for (;;) {
      dropped_ = false;
      // libedit prepares the terminal only after it has shown the prompt: a Ctrl-C typed in between
      // would still be a signal, and end the program.
      el_set(edit_, EL_PREP_TERM, 1);
      int length = 0;
      const char* line = el_gets(edit_, &length);
      if (dropped_) {
        fmt::print("^C\n");
        continue;
      }
      if (line == nullptr || length <= 0) {
        fmt::print("\n");
        return std::nullopt;
      }
      std::string text(line, static_cast<size_t>(length));
      while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
      HistEvent event;
      if (!text.empty()) history(history_, &event, H_ENTER, line);
      return text;
    }
  }

 private:
  static EditingReader* self(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return static_cast<EditingReader*>(data);
  }
  static char* prompt(EditLine* edit) { return self(edit)->prompt_.data(); }
  static unsigned char drop_line(EditLine* edit, int /*key*/) {
    self(edit)->dropped_ = true;
    return CC_EOF;  // ends el_gets
  }

  void load_history() {
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    history(history_, &event, H_LOAD, history_file_.c_str());
    el_set(edit_, EL_HIST, history, history_);
  }

  // Not being able to keep a history is no reason to trouble anyone.
  void save_history() {
    std::error_code ignored;
    std::filesystem::create_directories(history_file_.parent_path(), ignored);
    HistEvent event;
    history(history_, &event, H_SAVE, history_file_.c_str());
    std::filesystem::permissions(
        history_file_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write,
        ignored);
  }

  std::string prompt_;
  std::filesystem::path history_file_;
  EditLine* edit_;
  History* history_;
  bool dropped_ = false;
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(const std::string& prompt,
                                             const std::filesystem::path& history_file) {
  if (!is_terminal(stdin) || !is_terminal(stdout)) return std::make_unique<PlainReader>();
  return std::make_unique<EditingReader>(prompt, history_file);
}

std::filesystem::path chat_history_file() {
  std::filesystem::path base = environment_variable("XDG_STATE_HOME");
  if (base.empty()) base = std::filesystem::path(environment_variable("HOME")) / ".local/state";
  return base / "penstock/chat_history";
}

}  // namespace penstock
