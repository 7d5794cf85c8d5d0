#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "os/cpu_time.h"

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

INSTANTIATE_TEST_SUITE_P(Language, ChatTemplateGolden,
                         testing::ValuesIn(load_cases("jinja_extra.json")), case_name);

TEST(ChatTemplate, TheGoldenFilesAreWhole) {
  EXPECT_EQ(load_cases("templates.json").size(), 123u);
  EXPECT_GE(load_cases("jinja_extra.json").size(), 400u);
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  const auto syntax = ChatTemplate::parse("a\n{% if x %}\n{{ 1 + }}\n{% endif %}");
  ASSERT_FALSE(syntax);
  EXPECT_EQ(syntax.error().kind, ErrorKind::kInvalidData);
  EXPECT_EQ(syntax.error().message, "line 3: unexpected the end of the expression");

  const auto runtime = render("a\n\n{% for x in [1] %}\n{{ x.y.z }}{% endfor %}");
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().kind, ErrorKind::kInvalidData);
  EXPECT_EQ(runtime.error().message, "line 4: 'int object' has no attribute 'y'");
}

TEST(ChatTemplate, WhatNeedsOtherTemplatesIsUnsupported) {
  for (const char* source :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}",
        "{% extends 'x' %}", "{% autoescape true %}{% endautoescape %}"}) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_FALSE(parsed) << source;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUnsupported) << source;
    EXPECT_TRUE(parsed.error().message.starts_with("line 1: ")) << parsed.error().message;
  }
}

TEST(ChatTemplate, BadBytesAreRefused) {
  EXPECT_EQ(ChatTemplate::parse("\xff").error().kind, ErrorKind::kInvalidData);
  const auto text = render("{{ x }}", {{"x", "\xff"}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(text.error().message, "variable 'x': text that is not valid UTF-8");
}

TEST(ChatTemplate, IntegersEndAt128BitsWithAnError) {
  // The least and the greatest integer, as they come from JSON and as they are computed.
  EXPECT_EQ(render("{{ x }} {{ y }}", {{"x", INT64_MIN}, {"y", UINT64_MAX}}).value(),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(render("{{ 2 ** 126 - 1 + 2 ** 126 }}").value(),
            "170141183460469231731687303715884105727");
  const std::string least = "(0 - 2 ** 126 - 2 ** 126)";
  EXPECT_EQ(render("{{ " + least + " }}").value(), "-170141183460469231731687303715884105728");
  const std::vector<std::string> too_large = {"2 ** 127",
                                              "2 ** 126 * 2",
                                              least + " - 1",
                                              "-" + least,
                                              least + " // -1",
                                              least + " % -1",
                                              least + " | abs",
                                              "1e39 | int",
                                              "('9' * 40) | int",
                                              "2 ** 126 + 2 ** 126",
                                              least + " * -1",
                                              "2 ** 999999999999999999",
                                              "999999999999999999999999999999999999999"};
  for (const std::string& expression : too_large) {
    const auto text = render("{{ " + expression + " }}");
    ASSERT_FALSE(text) << expression << " gives " << *text;
    EXPECT_NE(text.error().message.find("beyond 128 bits"), std::string::npos)
        << expression << ": " << text.error().message;
  }
}

TEST(ChatTemplate, RendersFromManyThreadsAtOnce) {
  struct Work {
    ChatTemplate chat;
    const GoldenCase* golden;
  };
  const std::vector<GoldenCase> cases = load_cases("templates.json");
  std::vector<Work> work;
  for (const GoldenCase& golden : cases) {
    if (auto chat = ChatTemplate::parse(golden.source); chat && golden.rendered) {
      work.push_back({*std::move(chat), &golden});
    }
  }
  ASSERT_GT(work.size(), 80u);
  constexpr int kThreads = 4;
  std::vector<int> n_wrong(kThreads, 0);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&work, &wrong = n_wrong[static_cast<size_t>(i)]] {
        for (int round = 0; round < 5; ++round) {
          for (const Work& each : work) {
            const auto text = each.chat.render(each.golden->inputs, golden_now());
            if (!text || *text != *each.golden->rendered) ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(n_wrong, std::vector<int>(kThreads, 0));
}

TEST(ChatTemplate, InputsNestedTooDeeplyAreRefused) {
  OrderedJson deep = 1;
  for (int i = 0; i < 200; ++i) deep = OrderedJson::array({std::move(deep)});
  EXPECT_TRUE(render("{{ x | length }}", {{"x", deep}}));
  for (int i = 0; i < 100'000; ++i) deep = OrderedJson::array({std::move(deep)});
  const auto text = render("{{ x }}", {{"x", std::move(deep)}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(text.error().message, "variable 'x': nested more than 200 deep");
}

// ---- Hostile templates: each ends soon, with an error of its own.

struct Hostile {
  const char* name;
  std::string source;
  ErrorKind kind = ErrorKind::kExhausted;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

std::string repeated(std::string_view text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

std::vector<Hostile> hostile_templates() {
  const std::string forever = "{% for a in range(99999) %}{% for b in range(99999) %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const std::string grow = "{% set n = namespace(x=start) %}" + forever;
  const auto growing = [&](std::string_view start, std::string_view step) {
    return "{% set start = " + std::string(start) + " %}" + grow +
           "{% set n.x = " + std::string(step) + " %}" + end;
  };
  return {
      {"parentheses", "{{ " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + " }}"},
      {"brackets", "{{ " + repeated("[", 100'000)},
      {"braces", "{{ " + repeated("{1:", 100'000)},
      {"nots", "{{ " + repeated("not ", 100'000) + "1 }}"},
      {"signs", "{{ " + repeated("-", 100'000) + "1 }}"},
      {"sum", "{{ 1" + repeated(" + 1", 100'000) + " }}"},
      {"attributes", "{{ a" + repeated(".b", 100'000) + " }}"},
      {"filters", "{{ 1" + repeated("|abs", 100'000) + " }}"},
      {"calls", "{{ a" + repeated("()", 100'000) + " }}"},
      {"tests", "{{ " + repeated("1 is eq ", 100'000) + "1 }}"},
      {"conditions", "{{ " + repeated("1 if 0 else ", 100'000) + "1 }}"},
      {"subscripts", "{{ " + repeated("a[", 100'000)},
      {"targets", "{% set " + repeated("(", 100'000)},
      {"ifs", repeated("{% if 1 %}", 100'000)},
      {"fors", repeated("{% for x in y %}", 100'000)},
      {"macros", repeated("{% macro m() %}", 100'000)},
      {"steps", forever + end},
      {"huge range", "{{ range(10 ** 12) }}", ErrorKind::kInvalidData},
      {"text times", "{{ 'a' * 10 ** 9 }}"},
      {"text times text", "{{ ('a' * 10 ** 8) * 10 ** 12 }}"},
      {"list times", "{{ [1] * 10 ** 9 }}"},
      {"list times list", "{{ [[1] * 10 ** 30] }}"},
      {"doubling text", growing("'ab'", "n.x + n.x")},
      {"doubling list", growing("[1]", "n.x + n.x")},
      {"doubling by tilde", growing("'ab'", "n.x ~ n.x")},
      {"doubling by join", growing("'ab'", "[n.x, n.x] | join")},
      {"doubling by replace", growing("'aa'", "n.x | replace('a', 'aa')")},
      {"doubling by format", growing("'ab'", "'%s%s' % (n.x, n.x)")},
      {"doubling by braces", growing("'ab'", "'{0}{0}'.format(n.x)")},
      {"doubling by json", growing("'\"'", "n.x | tojson")},
      {"doubling by escape", growing("'&'", "n.x | e | string")},
      {"doubling by indent", growing("'a\\nb'", "n.x | indent(n.x | length)")},
      {"deep list", growing("[]", "[n.x]")},
      {"deep dict", growing("{}", "{'a': n.x}")},
      {"deep generator", growing("[]", "n.x | map('list')")},
      {"deep cycler", growing("1", "cycler(n.x)")},
      {"deep joiner", growing("1", "joiner(n.x)")},
      {"deep method", growing("'a'", "[n.x.upper, n.x] | list if n.x is string else [n.x]")},
      {"wide tree",
       "{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] "
       "%}{% endfor %}{{ n.x }}"},
      {"equal trees",
       "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(100) %}{% set n.x = "
       "[n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}"},
      {"tree as JSON",
       "{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x]"
       " %}{% endfor %}{{ n.x | tojson }}"},
      {"tree as key",
       "{% set n = namespace(x=(1,)) %}{% for i in range(100) %}{% set n.x = (n.x, n.x)"
       " %}{% endfor %}{{ {n.x: 1} }}",
       ErrorKind::kInvalidData},
      {"padding", "{{ 'a'.center(10 ** 12) }}"},
      {"zeros", "{{ '1'.zfill(10 ** 30) }}"},
      {"width", "{{ '%999999999999d' % 1 }}"},
      {"star width", "{{ '%*d' % (10 ** 18, 1) }}"},
      {"brace width", "{{ '{:999999999999}'.format(1) }}"},
      {"indentation", "{{ 'a\\nb' | indent(10 ** 12) }}"},
      {"JSON indentation", "{{ [1] | tojson(indent=10 ** 12) }}"},
      {"tabs", "{{ ('\\t' * 1000).expandtabs(2 ** 31) }}"},
      {"batch", "{{ [1] | batch(10 ** 12, 0) | list }}"},
      {"slices", "{{ [] | slice(10 ** 12) | list }}"},
      {"output", "{% set x = 'a' * 1000000 %}{% for i in range(100) %}{{ x }}{% endfor %}"},
      {"captured output",
       "{% set x = 'a' * 1000000 %}{% macro m() %}{% for i in range(100) %}{{ x }}"
       "{% endfor %}{% endmacro %}{{ m() | length }}"},
      {"macro recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
      {"two macros",
       "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
      {"macro default", "{% macro m(x=m()) %}{% endmacro %}{{ m() }}"},
      {"macro in a filter",
       "{% macro m() %}{{ [1] | map('default', m()) | list }}{% endmacro %}{{ m() }}"},
      {"deep macro", "{% macro m() %}{{ " + repeated("(1 + ", 150) + "m() | int" +
                         repeated(")", 150) + " }}{% endmacro %}{{ m() }}"},
      {"caller recursion",
       "{% macro m() %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() "
       "}}{% endcall %}{% endmacro %}{{ r() }}"},
      {"loop recursion", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"block in a macro",
       "{% macro m() %}{% set x %}{{ m() }}{% endset %}{{ x }}{% endmacro %}{{ m() }}"},
      {"searching", "{% set x = 'a' * 3000000 %}" + forever + "{{ x.find('b') }}" + end},
      {"comparing",
       "{% set x = 'a' * 3000000 %}{% set y = x ~ 'b' %}" + forever + "{{ '' if x == y }}" + end},
      {"membership", "{% set x = range(99999) | list %}" + forever + "{{ '' if 'a' in x }}" + end},
      {"indexing", "{% set x = 'é' * 2000000 %}" + forever + "{{ '' if x[1900000] == 'a' }}" + end},
      {"sigmas", "{% set x = 'Σ' * 2000000 %}" + forever + "{{ '' if x.lower() == 'a' }}" + end},
      {"namespace printed", "{% set n = namespace() %}{% set n.n = n %}{{ n }}"},
      {"namespace chain",
       "{% set n = namespace(x=none) %}{% for i in range(90000) %}{% set n.x = "
       "namespace(x=n.x) %}{% endfor %}{{ n.x }}"},
      {"strftime", "{{ strftime_now('%999999999d') }}", ErrorKind::kInvalidData},
  };
}

std::string hostile_name(const testing::TestParamInfo<Hostile>& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

class ChatTemplateHostile : public testing::TestWithParam<Hostile> {
 protected:
  static constexpr TemplateLimits kTight = {.max_memory_bytes = size_t{16} << 20,
                                            .max_steps = 2'000'000};

  // The processor time that this build takes over as many of the cheapest steps as the limit lets
  // through: the bound suits every machine and sanitizer, however busy.
  static void SetUpTestSuite() {
    const double began = thread_cpu_seconds();
    const auto text =
        render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
               OrderedJson::object(), kTight);
    plain_seconds_ = thread_cpu_seconds() - began;
    ASSERT_FALSE(text);
  }

  static inline double plain_seconds_ = 0;
};

TEST_P(ChatTemplateHostile, EndsWithAnErrorAndSoon) {
  const double began = thread_cpu_seconds();
  const auto text = render(GetParam().source, OrderedJson::object(), kTight);
  const double taken = thread_cpu_seconds() - began;
  ASSERT_FALSE(text) << "rendered " << text->size() << " bytes";
  EXPECT_EQ(text.error().kind, GetParam().kind) << text.error().message;
  EXPECT_TRUE(text.error().message.starts_with("line ")) << text.error().message;
  // The dearest steps, Unicode's rules for a sigma, take some 25 times as long as the cheapest.
  EXPECT_LT(taken, 100 * plain_seconds_);
}

INSTANTIATE_TEST_SUITE_P(All, ChatTemplateHostile, testing::ValuesIn(hostile_templates()),
                         hostile_name);

// Values that hold themselves are given back: LeakSanitizer watches this test.
TEST(ChatTemplate, CyclesAreGivenBack) {
  const auto text = render(
      "{% set n = namespace() %}{% set n.me = n %}{% set n.list = [n, {'n': n}] %}{% macro m() "
      "%}{{ m.name "
      "}}{% endmacro %}{% set n.m = m %}{% for x in [1] %}{% set n.loop = loop %}{{ "
      "loop.changed(loop) }}{% "
      "set keep = loop %}{% macro inner() %}{{ keep.index }}{% endmacro %}{% set n.inner = inner "
      "%}{% "
      "endfor %}{% set n.cycler = cycler(n) %}{% set n.gen = [n] | map(attribute='me') %}{{ "
      "n.inner() }}");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "True1");
}

TEST(ChatTemplate, GeneratorsThatAskThemselvesAreAnError) {
  const auto text = render(
      "{% set n = namespace() %}{% set n.g = ([n] * 9) | map(attribute='g') | map('list') %}{{ n.g "
      "| list }}");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "line 1: generator already executing");
}

TEST(ChatTemplate, LimitsAreExact) {
  EXPECT_TRUE(render("{{ 'abcd' }}", OrderedJson::object(), {.max_output_bytes = 4}));
  EXPECT_FALSE(render("{{ 'abcd' }}", OrderedJson::object(), {.max_output_bytes = 3}));
  const auto nested = [](size_t n) {
    return "{{ " + repeated("[", n) + repeated("]", n) + " | length }}";
  };
  // Two levels of syntax are the body and the filtered expression.
  EXPECT_TRUE(render(nested(50), OrderedJson::object(), {.max_depth = 120}));
  EXPECT_FALSE(render(nested(150), OrderedJson::object(), {.max_depth = 120}));
  const std::string recursion =
      "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(depth) }}";
  EXPECT_TRUE(render(recursion, {{"depth", 99}}, {.max_depth = 100}));
  EXPECT_FALSE(render(recursion, {{"depth", 100}}, {.max_depth = 100}));
}

}  // namespace
}  // namespace penstock
