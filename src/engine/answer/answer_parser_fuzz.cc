// Any answer, in any pieces, gives the same: what is no call is content, calls are of declared
// tools, and without tools nothing is taken out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/answer/answer_parser.h"

namespace {

using namespace penstock;

struct Put {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> calls;  // whole

  bool operator==(const Put&) const = default;
};

void add(Put& put, const AnswerDelta& delta) {
  put.reasoning += delta.reasoning;
  put.content += delta.content;
  for (const ToolCallDelta& call : delta.calls) {
    if (call.index == put.calls.size()) {
      PENSTOCK_CHECK(!call.id.empty() && !call.name.empty(), "a call without id or name");
      put.calls.push_back(call);
      continue;
    }
    PENSTOCK_CHECK(call.index + 1 == put.calls.size(), "an earlier call goes on");
    PENSTOCK_CHECK(call.id.empty() && call.name.empty(), "id and name come once");
    put.calls.back().arguments += call.arguments;
  }
}

Put parse(const AnswerParserOptions& options, std::string_view text, size_t piece) {
  AnswerParser parser(options);
  Put put;
  for (size_t at = 0; at < text.size(); at += piece) add(put, parser.push(text.substr(at, piece)));
  add(put, parser.finish());
  return put;
}

bool is_subsequence(std::string_view part, std::string_view whole) {
  for (const char byte : whole) {
    if (!part.empty() && part.front() == byte) part.remove_prefix(1);
  }
  return part.empty();
}

const DeclaredTools& tools() {
  static const DeclaredTools declared(parse_ordered_json(R"([{"function": {"name": "read",
      "parameters": {"properties": {"path": {"type": "string"}, "n": {"type": "integer"},
      "all": {"type": ["array", "object"]}}}}}, {"function": {"name": "now"}}])")
                                          .value());
  return declared;
}

}  // namespace

// The first byte chooses the form, the second the length of pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  AnswerParserOptions options{.format = {.tools = static_cast<ToolForm>(data[0] % 5)}};
  PENSTOCK_CHECK(parse(options, text, 3).content == text, "without tools, all is content");

  options.tools = tools();
  if ((data[0] & 0x10) != 0) options.format.reasoning = {"<think>", "</think>"};
  options.opened_by_prompt = (data[0] & 0x20) != 0;
  options.parallel_calls = (data[0] & 0x40) == 0;
  const Put whole = parse(options, text, size);
  PENSTOCK_CHECK(parse(options, text, 1) == whole, "bytes give something else");
  PENSTOCK_CHECK(parse(options, text, 1 + data[1]) == whole, "pieces give something else");
  PENSTOCK_CHECK(is_subsequence(whole.content, text), "content that is not the model's");
  for (const ToolCallDelta& call : whole.calls) {
    PENSTOCK_CHECK(tools().find(call.name) != nullptr, "an undeclared tool");
  }
  PENSTOCK_CHECK(options.parallel_calls || whole.calls.size() <= 1, "more than one call");
  return 0;
}
