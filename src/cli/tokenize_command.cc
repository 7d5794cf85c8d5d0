// penstock tokenize: strings to token ids and back, as JSON, for scripts and tests.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/input.h"
#include "cli/model_text.h"

namespace penstock {
namespace {

struct TokenizeOptions {
  std::filesystem::path path = {};
  bool no_special = false;
  bool decode = false;
};

Result<Json> encode_all(const Tokenizer& tokenizer, bool add_special) {
  PENSTOCK_ASSIGN(const auto texts, parse_strings(read_stdin(), "standard input"));
  Json lists = Json::array();
  for (const std::string& text : texts) {
    PENSTOCK_ASSIGN(const auto ids, tokenizer.encode(text, {.add_special = add_special}));
    lists.push_back(ids);
  }
  return lists;
}

Result<Json> decode_all(const Tokenizer& tokenizer, bool skip_special) {
  PENSTOCK_ASSIGN(const auto lists, parse_id_lists(read_stdin(), "standard input"));
  Json texts = Json::array();
  for (const auto& ids : lists) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (tokenizer.has_token(ids[i])) continue;
      return fail(
          ErrorKind::kInvalidData,
          "standard input: list {}, place {}: the tokenizer has no token {}, the highest is {}",
          texts.size(), i, ids[i], tokenizer.vocab_size() - 1);
    }
    texts.push_back(tokenizer.decode(ids, skip_special));
  }
  return texts;
}

Result<void> run(const TokenizeOptions& options) {
  PENSTOCK_ASSIGN(const auto tokenizer, open_tokenizer(options.path));
  PENSTOCK_ASSIGN(const Json out, options.decode ? decode_all(*tokenizer, options.no_special)
                                                 : encode_all(*tokenizer, !options.no_special));
  fmt::print("{}\n", out.dump());
  return {};
}

}  // namespace

void add_tokenize_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Turns a JSON list of strings on standard input into lists of token ids.");
  command
      ->add_option("MODEL", options->path,
                   "a Hugging Face folder, a GGUF file, a pack, or a tokenizer.json")
      ->required();
  command->add_flag("--decode", options->decode, "lists of token ids into strings");
  command->add_flag("--no-special", options->no_special,
                    "do not add special tokens; with --decode, leave them out");
  command->footer(examples(
      {{"echo '[\"Hello\"]' | penstock tokenize model.gguf",
        "the ids of a text, with BOS if the tokenizer adds it"},
       {"echo '[[1, 9690]]' | penstock tokenize model.gguf --decode", "the text of some ids"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
