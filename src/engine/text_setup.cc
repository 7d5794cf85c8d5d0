#include "engine/text_setup.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

// Reads tokenizer.ggml.* values; errors name the key.
class GgufFields {
 public:
  explicit GgufFields(const Json& values) : values_(values) {}

  template <class T>
  Result<std::optional<T>> value(const char* key) const {
    const auto found = values_.find(key);
    if (found == values_.end() || found->is_null()) return std::nullopt;
    PENSTOCK_ASSIGN(T converted, convert<T>(*found, key));
    return converted;
  }

  // Empty when the key is absent.
  template <class T>
  Result<std::vector<T>> list(const char* key) const {
    const auto found = values_.find(key);
    std::vector<T> all;
    if (found == values_.end() || found->is_null()) return all;
    if (!found->is_array()) return wrong(key, "an array", *found);
    all.reserve(found->size());
    for (const Json& item : *found) {
      PENSTOCK_ASSIGN(auto converted, convert<T>(item, key));
      all.push_back(std::move(converted));
    }
    return all;
  }

 private:
  static std::unexpected<Error> wrong(const char* key, std::string_view expected,
                                      const Json& found) {
    return fail(ErrorKind::kInvalidData, "tokenizer.ggml.{} must be {}, but is {}", key, expected,
                found.type_name());
  }

  template <class T>
  static Result<T> convert(const Json& json, const char* key) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) return wrong(key, "text", json);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return wrong(key, "true or false", json);
    } else if constexpr (std::is_same_v<T, float>) {
      if (!json.is_number()) return wrong(key, "numbers", json);
    } else {
      if (!json.is_number_integer()) return wrong(key, "an integer", json);
      const auto number = json.get<int64_t>();
      if (number < 0 || number > std::numeric_limits<T>::max()) {
        return fail(ErrorKind::kInvalidData, "tokenizer.ggml.{} has {}, which is out of range", key,
                    number);
      }
    }
    return json.get<T>();
  }

  const Json& values_;
};

Result<GgufVocabulary> read_vocabulary(const Json& values) {
  const GgufFields fields(values);
  GgufVocabulary vocabulary;
  PENSTOCK_ASSIGN(auto model, fields.value<std::string>("model"));
  PENSTOCK_ASSIGN(auto pre, fields.value<std::string>("pre"));
  vocabulary.model = std::move(model).value_or("");
  vocabulary.pre = std::move(pre).value_or("");
  PENSTOCK_ASSIGN(vocabulary.tokens, fields.list<std::string>("tokens"));
  PENSTOCK_ASSIGN(vocabulary.scores, fields.list<float>("scores"));
  PENSTOCK_ASSIGN(vocabulary.token_types, fields.list<int32_t>("token_type"));
  PENSTOCK_ASSIGN(vocabulary.merges, fields.list<std::string>("merges"));
  PENSTOCK_ASSIGN(vocabulary.bos_id, fields.value<int32_t>("bos_token_id"));
  PENSTOCK_ASSIGN(vocabulary.eos_id, fields.value<int32_t>("eos_token_id"));
  PENSTOCK_ASSIGN(vocabulary.eot_id, fields.value<int32_t>("eot_token_id"));
  PENSTOCK_ASSIGN(vocabulary.unk_id, fields.value<int32_t>("unknown_token_id"));
  PENSTOCK_ASSIGN(vocabulary.pad_id, fields.value<int32_t>("padding_token_id"));
  PENSTOCK_ASSIGN(vocabulary.add_bos, fields.value<bool>("add_bos_token"));
  PENSTOCK_ASSIGN(vocabulary.add_eos, fields.value<bool>("add_eos_token"));
  PENSTOCK_ASSIGN(vocabulary.add_space_prefix, fields.value<bool>("add_space_prefix"));
  return vocabulary;
}

Result<Tokenizer> make_tokenizer(const StoredTokenizer& stored) {
  if (!stored.json.empty()) return Tokenizer::from_json(stored.json);
  if (!stored.ggml.is_object()) {
    return fail(ErrorKind::kNotFound,
                "the model has no tokenizer: neither a tokenizer.json nor tokenizer.ggml keys");
  }
  PENSTOCK_ASSIGN(const GgufVocabulary vocabulary, read_vocabulary(stored.ggml));
  return Tokenizer::from_vocabulary(vocabulary);
}

}  // namespace

Result<TextSetup> make_text_setup(const StoredTokenizer& stored) {
  PENSTOCK_ASSIGN(Tokenizer tokenizer, make_tokenizer(stored));
  TextSetup setup{.tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer)),
                  .template_source = stored.chat_template,
                  .bos_token = stored.bos_token,
                  .eos_token = stored.eos_token};
  if (!stored.chat_template.empty()) {
    PENSTOCK_ASSIGN(ChatTemplate parsed, ChatTemplate::parse(stored.chat_template));
    setup.chat_template = std::make_shared<const ChatTemplate>(std::move(parsed));
  }
  return setup;
}

std::vector<int32_t> end_ids(const GenerationDefaults& generation, const TextSetup& text) {
  std::vector<int32_t> ids = generation.eos_ids;
  const auto add = [&](std::optional<int32_t> id) {
    if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  };
  if (!text.eos_token.empty()) add(text.tokenizer->token_id(text.eos_token));
  add(text.tokenizer->eos_id());
  return ids;
}

}  // namespace penstock
