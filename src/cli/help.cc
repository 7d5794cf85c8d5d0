#include "cli/help.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "cli/command.h"

namespace penstock {
namespace {

constexpr size_t kNameColumns = 30;
constexpr size_t kLineColumns = 96;

// "  name    description", the description wrapped at words and continued in its own column.
std::string entry(const std::string& name, const std::string& description) {
  std::string out = fmt::format("  {:<{}}", name, kNameColumns - 2);
  if (name.size() + 2 >= kNameColumns) out += '\n' + std::string(kNameColumns, ' ');
  size_t column = kNameColumns;
  std::istringstream words(description);
  for (std::string word; words >> word;) {
    if (column + word.size() > kLineColumns && column > kNameColumns) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += '\n' + std::string(kNameColumns, ' ');
      column = kNameColumns;
    }
    out += word + ' ';
    column += word.size() + 1;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

}  // namespace

std::string command_path(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  const bool nested = parent != nullptr && parent->get_parent() != nullptr;
  return (nested ? command_path(*parent) + ' ' : "") + command.get_name();
}

HelpFormatter::HelpFormatter() { label("Positionals", "Arguments"); }

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string help = Formatter::make_help(app, std::move(name), mode);
  // CLI11 leaves two empty lines between groups of options.
  for (size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  return help;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string /*name*/) const {
  const bool has_commands = app->get_parent() == nullptr;
  std::string usage = "\nUsage: penstock";
  if (has_commands) return usage + " COMMAND [options]\n";
  usage += ' ' + command_path(*app);
  for (const CLI::Option* option : app->get_options()) {
    if (!option->get_positional()) continue;
    const std::string argument = option->get_name(/*positional=*/true);
    usage += option->get_required() ? ' ' + argument : fmt::format(" [{}]", argument);
  }
  return usage + " [options]\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = option->get_name(is_positional, /*all_options=*/!is_positional);
  if (!is_positional && option->get_type_size() != 0) {
    const std::string type = option->get_type_name();  // "N:INT in [1 - 4096]": type, then checks
    name += ' ' + type.substr(0, type.find(':'));
  }
  std::string description = option->get_description();
  if (!option->get_default_str().empty()) {
    description += fmt::format(" [{}]", option->get_default_str());
  }
  return entry(name, description);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string examples(std::initializer_list<Example> list) {
  std::string out = "Examples:\n";
  for (const auto& [command, effect] : list) {
    out += fmt::format("  # {}\n  {}\n", effect, command);
  }
  out.pop_back();
  return out;
}

}  // namespace penstock
