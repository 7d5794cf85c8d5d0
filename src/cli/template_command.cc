// penstock template: what a chat template makes of messages and tools.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <iomanip>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/input.h"
#include "engine/chat.h"
#include "text/chat_template.h"

namespace penstock {
namespace {

struct TemplateOptions {
  std::filesystem::path path = {};
  std::filesystem::path input_path = {};
  std::string now = {};
};

// A template and the variables that its model gives it.
struct Source {
  std::string text = {};
  std::string name = {};  // for errors
  OrderedJson defaults = OrderedJson::object();
};

Result<Source> read_source(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored) && path.extension() != ".gguf") {
    PENSTOCK_ASSIGN(std::string text, read_file(path));
    return Source{.text = std::move(text), .name = path.string()};
  }
  PENSTOCK_ASSIGN(Checkpoint checkpoint, open_checkpoint(path));
  StoredTokenizer& stored = checkpoint.tokenizer;
  if (stored.chat_template.empty()) {
    return fail(ErrorKind::kNotFound, "{} has no chat template", path.string());
  }
  return Source{.text = std::move(stored.chat_template),
                .name = fmt::format("the chat template of {}", path.string()),
                .defaults = {{"bos_token", stored.bos_token}, {"eos_token", stored.eos_token}}};
}

// nullopt for what is no such time.
std::optional<std::chrono::local_seconds> parse_time(const std::string& text) {
  using namespace std::chrono;
  std::tm time = {};
  std::istringstream stream(text);
  stream >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S");
  if (!stream || stream.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
  const year_month_day date(year(time.tm_year + 1900),
                            month(static_cast<unsigned>(time.tm_mon) + 1),
                            day(static_cast<unsigned>(time.tm_mday)));
  if (!date.ok()) return std::nullopt;
  return local_days(date) + hours(time.tm_hour) + minutes(time.tm_min) + seconds(time.tm_sec);
}

Result<OrderedJson> read_inputs(const std::filesystem::path& path, OrderedJson inputs) {
  PENSTOCK_ASSIGN(const std::string text, read_file(path));
  const Result<OrderedJson> given = parse_ordered_json(text);
  if (!given) return std::unexpected(given.error().in(path.string()));
  if (!given->is_object()) {
    return fail(ErrorKind::kInvalidData,
                "{}: found {}, expected an object of the template's variables", path.string(),
                given->type_name());
  }
  for (const auto& [name, value] : given->items()) inputs[name] = value;
  return inputs;
}

Result<void> run(const TemplateOptions& options) {
  const auto now = options.now.empty() ? std::optional(local_now()) : parse_time(options.now);
  if (!now) {
    return fail(ErrorKind::kInvalidArgument,
                "--now: found \"{}\", expected a time like 2026-03-14T15:09:26", options.now);
  }
  PENSTOCK_ASSIGN(const Source source, read_source(options.path));
  PENSTOCK_ASSIGN(const OrderedJson inputs, read_inputs(options.input_path, source.defaults));
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source.text);
  if (!parsed) return std::unexpected(parsed.error().in(source.name));
  Result<std::string> rendered = parsed->render(inputs, *now);
  if (!rendered) {
    // What a template raises is about its input, not about the command line.
    Error error = rendered.error().in(source.name);
    error.kind = ErrorKind::kInvalidData;
    return std::unexpected(std::move(error));
  }
  fmt::print("{}", *rendered);
  return {};
}

}  // namespace

void add_template_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<TemplateOptions>();
  CLI::App* command =
      app.add_subcommand("template", "Prints what a chat template makes of messages and tools.");
  command
      ->add_option("MODEL", options->path,
                   "a Hugging Face folder, a GGUF file, a pack, or a template in a file of its own")
      ->required();
  command
      ->add_option(
          "--input", options->input_path,
          "a JSON object of the template's variables: messages, tools, "
          "add_generation_prompt, ...; bos_token and eos_token are the model's unless given")
      ->type_name("FILE.json")
      ->required();
  command
      ->add_option(
          "--now", options->now,
          "the local time that the template sees, like 2026-03-14T15:09:26; now unless given")
      ->type_name("TIME");
  command->footer(
      examples({{"penstock template model.gguf --input chat.json", "the prompt of a conversation"},
                {"penstock template chatml.jinja --input chat.json --now 2026-03-14T15:09:26",
                 "a template by itself, at a fixed time"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
