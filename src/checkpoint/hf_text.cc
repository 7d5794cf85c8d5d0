#include "checkpoint/hf_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "checkpoint/json_text.h"
#include "os/file.h"

namespace penstock {
namespace {

constexpr uint64_t kMaxTokenizerBytes = 256 * kMiB;
constexpr uint64_t kMaxSmallBytes = 64 * kMiB;  // tokenizer_config.json lists every added token

// The file's text; empty where there is no such file.
Result<std::string> read_if_there(const std::filesystem::path& path, uint64_t max_bytes) {
  if (!path_exists(path)) return std::string();
  return read_whole_file(path, max_bytes);
}

// The object in a JSON file; an empty one where there is no such file.
Result<Json> read_object_if_there(const std::filesystem::path& path) {
  if (!path_exists(path)) return Json::object();
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(path, kMaxSmallBytes));
  auto json = parse_json(text);
  if (!json) return std::unexpected(json.error().in(path.string()));
  if (json->is_object()) return json;
  return fail(ErrorKind::kInvalidData, "{}: the whole is {}, expected an object", path.string(),
              brief(*json));
}

// A special token is written as its text, or as an object with its "content".
Result<std::string> token_text(const HfFields& fields, std::string_view name) {
  const Json* found = fields.find({name});
  if (found == nullptr) return std::string();
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  if (content != found->end() && content->is_string()) return content->get<std::string>();
  return fail(ErrorKind::kInvalidData,
              "\"{}\" is {}, expected a string or an object with \"content\"", name, brief(*found));
}

// The template as a string, or the one called "default" of a list of them.
Result<std::string> template_in(const HfFields& fields) {
  const Json* found = fields.find({"chat_template"});
  if (found == nullptr) return std::string();
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const Json& entry : *found) {
      const HfFields named(entry);
      PENSTOCK_ASSIGN(const auto name, named.string({"name"}));
      PENSTOCK_ASSIGN(auto source, named.string({"template"}));
      if (name == "default" && source) return *std::move(source);
    }
    return std::string();
  }
  return fail(ErrorKind::kInvalidData, "\"chat_template\" is {}, expected a string or a list",
              brief(*found));
}

// The id that tokenizer_config.json gives a token's text: {"added_tokens_decoder": {"3":
// {"content": "</s>"}}}.
std::optional<int64_t> added_token_id(const HfFields& fields, const std::string& text) {
  const Json* tokens = fields.find({"added_tokens_decoder"});
  if (text.empty() || tokens == nullptr || !tokens->is_object()) return {};
  for (const auto& [key, token] : tokens->items()) {
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (content == token.end() || *content != text) continue;
    int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error == std::errc() && end == key.data() + key.size()) return id;
  }
  return {};
}

class TextReader {
 public:
  TextReader(const std::filesystem::path& folder, const HfConfig& config)
      : folder_(folder), config_(config) {}

  Result<HfText> read() {
    StoredTokenizer& tokenizer = text_.tokenizer;
    PENSTOCK_ASSIGN(tokenizer.json, read_if_there(folder_ / "tokenizer.json", kMaxTokenizerBytes));
    PENSTOCK_TRY(named("special_tokens_map.json", &TextReader::read_special_tokens));
    PENSTOCK_TRY(named("tokenizer_config.json", &TextReader::read_tokenizer_config));
    PENSTOCK_TRY(read_template_files());
    PENSTOCK_TRY(named("generation_config.json", &TextReader::read_generation));
    for (const int64_t id : config_.eos_ids) add_eos(id, "config.json");
    if (!text_.generation.bos_id) set_bos(config_.bos_ids, "config.json");
    return std::move(text_);
  }

 private:
  // Gives `take` the fields of a file of the folder; its errors get the file's name.
  Result<void> named(const char* name, Result<void> (TextReader::*take)(const HfFields&)) {
    PENSTOCK_ASSIGN(const Json json, read_object_if_there(folder_ / name));
    auto done = (this->*take)(HfFields(json));
    if (!done) return std::unexpected(done.error().in((folder_ / name).string()));
    return done;
  }

  Result<void> read_special_tokens(const HfFields& fields) {
    PENSTOCK_ASSIGN(text_.tokenizer.bos_token, token_text(fields, "bos_token"));
    PENSTOCK_ASSIGN(text_.tokenizer.eos_token, token_text(fields, "eos_token"));
    return {};
  }

  // Wins over special_tokens_map.json, its predecessor.
  Result<void> read_tokenizer_config(const HfFields& fields) {
    PENSTOCK_ASSIGN(std::string bos, token_text(fields, "bos_token"));
    PENSTOCK_ASSIGN(std::string eos, token_text(fields, "eos_token"));
    if (!bos.empty()) text_.tokenizer.bos_token = std::move(bos);
    if (!eos.empty()) text_.tokenizer.eos_token = std::move(eos);
    PENSTOCK_ASSIGN(text_.tokenizer.chat_template, template_in(fields));
    const auto id = added_token_id(fields, text_.tokenizer.eos_token);
    if (id) add_eos(*id, "tokenizer_config.json");
    return {};
  }

  // A template in a file of its own wins over the one in tokenizer_config.json.
  Result<void> read_template_files() {
    PENSTOCK_TRY(named("chat_template.json", &TextReader::read_template));
    PENSTOCK_ASSIGN(std::string source,
                    read_if_there(folder_ / "chat_template.jinja", kMaxSmallBytes));
    if (!source.empty()) text_.tokenizer.chat_template = std::move(source);
    return {};
  }
  Result<void> read_template(const HfFields& fields) {
    PENSTOCK_ASSIGN(std::string source, template_in(fields));
    if (!source.empty()) text_.tokenizer.chat_template = std::move(source);
    return {};
  }

  Result<void> read_generation(const HfFields& fields) {
    PENSTOCK_ASSIGN(const auto eos, fields.integers({"eos_token_id"}));
    PENSTOCK_ASSIGN(const auto bos, fields.integers({"bos_token_id"}));
    for (const int64_t id : eos) add_eos(id, "generation_config.json");
    set_bos(bos, "generation_config.json");
    return {};
  }

  std::optional<int32_t> usable(int64_t id, std::string_view file) {
    if (id >= 0 && id < config_.spec.vocab_size) return static_cast<int32_t>(id);
    text_.notes.push_back(fmt::format("token id {} of {} is ignored: the vocabulary has {}", id,
                                      file, config_.spec.vocab_size));
    return {};
  }
  void add_eos(int64_t id, std::string_view file) {
    auto& eos_ids = text_.generation.eos_ids;
    const auto usable_id = usable(id, file);
    if (usable_id && std::ranges::find(eos_ids, *usable_id) == eos_ids.end()) {
      eos_ids.push_back(*usable_id);
    }
  }
  void set_bos(const std::vector<int64_t>& ids, std::string_view file) {
    if (!ids.empty()) text_.generation.bos_id = usable(ids.front(), file);
  }

  const std::filesystem::path& folder_;
  const HfConfig& config_;
  HfText text_;
};

}  // namespace

Result<HfText> read_hf_text(const std::filesystem::path& folder, const HfConfig& config) {
  return TextReader(folder, config).read();
}

}  // namespace penstock
