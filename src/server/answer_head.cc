#include "server/answer_head.h"

#include <chrono>
#include <random>

#include "base/version.h"

namespace penstock {
namespace {

std::string fingerprint() { return fmt::format("penstock-{}-{}", version(), commit()); }

}  // namespace

AnswerHead make_answer_head(std::string_view prefix, std::string_view model) {
  std::random_device random;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {.id = fmt::format("{}{:08x}{:08x}{:08x}", prefix, random(), random(), random()),
          .model = std::string(model),
          .created = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count()};
}

OrderedJson head_object(const AnswerHead& head, std::string_view kind) {
  return {{"id", head.id},
          {"object", kind},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", fingerprint()}};
}

OrderedJson usage_object(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string dump_answer(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string event(std::string_view data) { return fmt::format("data: {}\n\n", data); }

ChunkWriter::ChunkWriter(const AnswerHead& head, std::string_view kind, bool include_usage)
    : begin_("data: " + dump_answer(head_object(head, kind))), include_usage_(include_usage) {
  begin_.back() = ',';  // was the object's end
  begin_ += R"("choices":[)";
  end_ = include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
}

std::string ChunkWriter::chunk(std::string_view choice) const {
  std::string text;
  text.reserve(begin_.size() + choice.size() + end_.size());
  return text.append(begin_).append(choice).append(end_);
}

std::string ChunkWriter::usage_chunk(const Usage& usage) const {
  if (!include_usage_) return {};
  return begin_ + R"(],"usage":)" + dump_answer(usage_object(usage)) + "}\n\n";
}

}  // namespace penstock
