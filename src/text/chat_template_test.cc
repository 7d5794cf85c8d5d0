#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace penstock {
namespace {

using std::chrono::local_days;

// The fixed clock of the makers: 2026-03-14 15:09:26.
std::chrono::local_seconds golden_now() {
  return local_days(std::chrono::year(2026) / 3 / 14) + std::chrono::hours(15) +
         std::chrono::minutes(9) + std::chrono::seconds(26);
}

struct GoldenCase {
  std::string name;
  std::string source;
  OrderedJson inputs;
  std::optional<std::string> rendered;
  std::string error_kind, error_message;
};

void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.name; }

// The cases of a file made by make_templates.py or make_jinja_extra.py.
std::vector<GoldenCase> load_cases(const std::string& file) {
  std::ifstream in(std::string(PENSTOCK_SOURCE_DIR "/tests/golden/") + file);
  std::stringstream text;
  text << in.rdbuf();
  const auto json = parse_ordered_json(text.str());
  if (!json) {
    ADD_FAILURE() << file << ": " << json.error().message;
    return {};
  }
  std::vector<GoldenCase> cases;
  for (const OrderedJson& entry : (*json)["cases"]) {
    GoldenCase golden;
    golden.name = entry["name"];
    golden.source = (*json)["templates"][entry["template"].get<std::string>()];
    golden.inputs = entry["inputs"];
    if (entry.contains("rendered")) {
      golden.rendered = entry["rendered"];
    } else {
      golden.error_kind = entry["error"]["kind"];
      golden.error_message = entry["error"]["message"];
    }
    cases.push_back(std::move(golden));
  }
  return cases;
}

Result<std::string> render(std::string_view source,
                           const OrderedJson& inputs = OrderedJson::object(),
                           TemplateLimits limits = {}) {
  PENSTOCK_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(source, limits));
  return chat.render(inputs, golden_now());
}

class ChatTemplateGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(ChatTemplateGolden, EqualsJinja2) {
  const GoldenCase& golden = GetParam();
  const auto text = render(golden.source, golden.inputs);
  if (golden.rendered) {
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, *golden.rendered);
    return;
  }
  ASSERT_FALSE(text) << "rendered " << *text << "\nbut jinja2 says " << golden.error_message;
  if (golden.error_kind == "raised") {
    EXPECT_EQ(text.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(text.error().message, golden.error_message);
  } else {
    EXPECT_NE(text.error().kind, ErrorKind::kInvalidArgument) << text.error().message;
    EXPECT_NE(text.error().kind, ErrorKind::kExhausted) << text.error().message;
    EXPECT_TRUE(text.error().message.starts_with("line ")) << text.error().message;
  }
}

std::string case_name(const testing::TestParamInfo<GoldenCase>& info) {
  std::string name = std::to_string(info.index) + "_" + info.param.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatTemplateGolden,
                         testing::ValuesIn(load_cases("templates.json")), case_name);

TEST(ChatTemplate, TheGoldenFilesAreWhole) { EXPECT_EQ(load_cases("templates.json").size(), 123u); }

}  // namespace
}  // namespace penstock
