#include "cli/model_text.h"

#include "checkpoint/checkpoint.h"
#include "cli/input.h"
#include "engine/text_setup.h"

namespace penstock {

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::filesystem::path& path) {
  if (path.extension() == ".json") {
    PENSTOCK_ASSIGN(const std::string json, read_file(path));
    Result<Tokenizer> tokenizer = Tokenizer::from_json(json);
    if (!tokenizer) return std::unexpected(tokenizer.error().in(path.string()));
    return std::make_shared<const Tokenizer>(*std::move(tokenizer));
  }
  PENSTOCK_ASSIGN(Checkpoint checkpoint, open_checkpoint(path));
  checkpoint.tokenizer.chat_template.clear();  // a broken one is none of our business here
  PENSTOCK_ASSIGN(TextSetup text, make_text_setup(checkpoint.tokenizer));
  return std::move(text.tokenizer);
}

}  // namespace penstock
