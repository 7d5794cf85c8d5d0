#include "cli/chat_loop.h"

#include <cstdio>
#include <utility>

namespace penstock {
namespace {

constexpr std::string_view kHelp =
    "/clear  forget the conversation\n"
    "/exit   leave; so does Ctrl-D\n"
    "/help   this list\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

OrderedJson message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

ChatLoop::ChatLoop(std::string system, LineReader& reader, AnswerFn answer)
    : system_(std::move(system)), reader_(reader), answer_(std::move(answer)) {
  clear();
}

void ChatLoop::run() {
  fmt::print(stderr, "/help says what there is besides talking.\n");
  while (const auto line = read_message()) {
    if (*line == "/exit") return;
    if (line->empty()) continue;
    if (line->front() == '/') {
      obey(*line);
    } else if (const auto done = answer(*line); !done) {
      fmt::print(stderr, "error: {}\n", done.error().text());
      messages_.erase(messages_.size() - 1);
    }
  }
}

std::optional<std::string> ChatLoop::read_message() {
  std::string text;
  while (const auto line = reader_.read()) {
    text += *line;
    if (!text.ends_with('\\')) return text;
    text.back() = '\n';
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

void ChatLoop::obey(std::string_view command) {
  if (command == "/clear") {
    clear();
    fmt::print("The conversation is forgotten.\n");
  } else if (command == "/help") {
    fmt::print("{}", kHelp);
  } else {
    fmt::print("There is no command {}.\n{}", command, kHelp);
  }
}

void ChatLoop::clear() {
  messages_ = OrderedJson::array();
  if (!system_.empty()) messages_.push_back(message("system", system_));
}

Result<void> ChatLoop::answer(const std::string& question) {
  messages_.push_back(message("user", question));
  PENSTOCK_ASSIGN(const std::string text, answer_(messages_));
  fmt::print("\n");
  std::fflush(stdout);
  messages_.push_back(message("assistant", text));
  return {};
}

}  // namespace penstock
