#include "cli/plan/plan_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>

#include "base/units.h"
#include "cli/plan/picture.h"
#include "cli/plan/plan_html.h"
#include "cli/plan/plan_json.h"
#include "memory/plan/plan_cases_test.h"

namespace penstock {
namespace {

struct Case {
  ModelDemands demands = {};
  Machine machine = {};
  Plan plan = {};
  std::vector<Alternative> alternatives = {};

  Case(const std::string& model, const std::string& machine_name)
      : demands(planned_model(model)), machine(planned_machine(machine_name)) {
    plan = make_plan(demands, machine, {}).value();
    alternatives = alternatives_to(plan, demands, machine, {});
  }
  std::string text(const TextStyle& style) const {
    return plan_text(plan, demands, machine, alternatives, style);
  }
};

int columns_of(std::string_view line) {
  return static_cast<int>(std::ranges::count_if(
      line, [](const char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t occurrences(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(PlanText, EveryLineFitsAnyTerminal) {
  for (const char* model : {"minimax-m2.5-nvfp4", "qwen3.8-flash-next-nvfp4"}) {
    for (const char* machine : {"windows-192gib-rtx5090", "linux-24gib-no-gpu"}) {
      const Case planned(model, machine);
      for (const int columns : {40, 60, 80, 100, 200}) {
        for (const bool has_blocks : {false, true}) {
          std::istringstream lines(planned.text({.columns = columns, .has_blocks = has_blocks}));
          for (std::string line; std::getline(lines, line);) {
            EXPECT_LE(columns_of(line), columns) << line;
          }
        }
      }
    }
  }
}

TEST(PlanText, WithoutBlocksItIsPlainAscii) {
  const Case planned("minimax-m2.5-nvfp4", "windows-192gib-rtx5090");
  // Room enough for tables, whose cut cells end in a character of three bytes.
  const std::string text = planned.text({.columns = 100});
  EXPECT_TRUE(
      std::ranges::all_of(text, [](const char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST(PlanText, TheGridHasEachLayerOnce) {
  const Case planned("minimax-m2.5-nvfp4", "windows-192gib-rtx5090");
  std::string text = planned.text({.columns = 100, .has_blocks = false});
  text = text.substr(text.find("\nlayers ") + 1);
  text = text.substr(0, text.find("      V"));
  const auto n = std::ranges::count_if(
      text.substr(6), [](const char c) { return std::string_view("VPLpd").contains(c); });
  EXPECT_EQ(n, 62);
}

TEST(PlanText, WhatIsNotKnownIsNamed) {
  Case planned("gpt-oss-20b", "linux-24gib-no-gpu");
  planned.machine.ram.read_gb_s.reset();
  planned.plan = make_plan(planned.demands, planned.machine, {}).value();
  const std::string text = planned.text({.columns = 100});
  EXPECT_NE(text.find("decode   not predicted, for these are not known: ram.read_gb_s"),
            std::string::npos)
      << text;
}

TEST(PlanBars, CellsAddUpAndShowWhatIsSmall) {
  PlanBar bar = {.total_bytes = 1000};
  bar.bytes = {500, 1, 0, 0, 1, 250};
  EXPECT_EQ(bar_cells(bar, 20), (std::array{10, 1, 0, 0, 1, 3}));
  bar.bytes = {1000, 0, 0, 0, 0, 500};  // more than there is cannot be drawn
  EXPECT_EQ(bar_cells(bar, 20), (std::array{20, 0, 0, 0, 0, 0}));
  bar.total_bytes = 0;
  EXPECT_EQ(bar_cells(bar, 20), (std::array{0, 0, 0, 0, 0, 0}));
}

TEST(PlanHtml, NeedsNothingElseAndEscapesNames) {
  Case planned("minimax-m2.5-nvfp4", "windows-192gib-rtx5090");
  planned.demands.name = "<script>\"&";
  const std::string page =
      plan_html(planned.plan, planned.demands, planned.machine, planned.alternatives);
  for (const char* outside : {"http", "<script", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("<h1>&lt;script&gt;&#34;&amp;</h1>"), std::string::npos);
  EXPECT_EQ(occurrences(page, "title=\"layer "), 62u);
}

TEST(PlanJson, HoldsWhatThePlanWasMadeFrom) {
  const Case planned("minimax-m2.5-nvfp4", "windows-192gib-rtx5090");
  const Json json = Json::parse(
      plan_json(planned.plan, planned.demands, planned.machine, planned.alternatives).dump());
  EXPECT_EQ(demands_from_json(json.at("model")), planned.demands);
  EXPECT_EQ(machine_from_json(json.at("machine")), planned.machine);
  EXPECT_EQ(json.at("plan").at("layers").size(), 62u);
  uint64_t ram = 0;
  for (const Json& part : json.at("plan").at("parts")) {
    if (part.at("place") == "ram" && part.at("item") != "reserve") {
      ram += part.at("bytes").get<uint64_t>();
    }
  }
  EXPECT_EQ(json.at("plan").at("ram_bytes"), ram);
  EXPECT_EQ(json.at("alternatives").size(), planned.alternatives.size());
}

}  // namespace
}  // namespace penstock
