#include "cli/plan/plan_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/html.h"
#include "base/units.h"
#include "base/version.h"
#include "cli/plan/picture.h"

namespace penstock {
namespace {

// Colours that people with any colour vision tell apart, on light and on dark.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5d6677; --line: #d8dce4; --page: #fbfbfd;
  --vram: #1f6fb4; --pinned: #2a9d8f; --locked: #e9b44c; --pageable: #e07a3f; --disk: #8d6a9f; --none: #c9ced8;
  --dense: #3f4a63; --experts: #2a9d8f; --kv: #1f6fb4; --rows: #8d6a9f; --other: #e9b44c; --reserve: #c9ced8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9f0; --soft: #9aa3b5; --line: #333a48; --page: #161a22; --dense: #97a3bf; --none: #454d5d; --reserve: #454d5d; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .2rem 0; } .soft { color: var(--soft); }
.rates { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 1.2rem; }
.rates div { flex: 1 1 16rem; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem; }
.rates b { display: block; font-size: 1.5rem; }
.bar { display: grid; grid-template-columns: 3.5rem 1fr 12rem; gap: .6rem; align-items: center; margin: .35rem 0; }
.bar span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.track { display: flex; height: 1.5rem; border: 1px solid var(--line); border-radius: .3rem; overflow: hidden; }
.track i { min-width: 2px; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .6rem 0; color: var(--soft); }
.key i { display: inline-block; width: .85rem; height: .85rem; border-radius: .2rem; margin-right: .4rem; vertical-align: -1px; }
.layers { display: grid; grid-template-columns: repeat(auto-fill, minmax(2.5rem, 1fr)); gap: .3rem; }
.layers i { font-style: normal; font-size: .75rem; text-align: center; line-height: 2.1rem; height: 2.1rem; border-radius: .3rem; color: #fff; }
.layers .locked, .layers .none { color: #1d2330; }
.layers .slots { box-shadow: inset 0 -4px 0 var(--vram); }
.vram { background: var(--vram); } .pinned { background: var(--pinned); } .locked { background: var(--locked); }
.pageable { background: var(--pageable); } .disk { background: var(--disk); } .none { background: var(--none); }
.k0 { background: var(--dense); } .k1 { background: var(--experts); } .k2 { background: var(--kv); }
.k3 { background: var(--rows); } .k4 { background: var(--other); } .k5 { background: var(--reserve); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; font-weight: normal; }
td:first-child, th:first-child { text-align: left; padding-left: 0; } th { color: var(--soft); }
)";

std::string row(std::string_view cell_tag, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) {
    out += fmt::format("<{0}>{1}</{0}>", cell_tag, html_escaped(cell));
  }
  return out + "</tr>\n";
}

std::string rate_box(std::string_view what, const PredictedRate& rate) {
  const std::string text = rate_text(rate);
  const size_t comma = rate.tok_s ? text.rfind(", bound") : std::string::npos;
  const std::string why = comma == std::string::npos ? text : text.substr(comma + 2);
  return fmt::format("<div>{}<b>{}</b><span class=\"soft\">{}</span></div>\n", what,
                     rate_number(rate), html_escaped(why));
}

std::string bars(const std::vector<PlanBar>& of_plan) {
  constexpr double kPercent = 100;
  std::string out;
  for (const PlanBar& bar : of_plan) {
    out += fmt::format("<div class=\"bar\"><span>{}</span><span class=\"track\">",
                       to_string(bar.place));
    for (int i = 0; i < kBarKinds; ++i) {
      const uint64_t bytes = bar.bytes[static_cast<size_t>(i)];
      if (bytes == 0 || bar.total_bytes == 0) continue;
      out +=
          fmt::format("<i class=\"k{}\" style=\"width:{:.2f}%\" title=\"{}: {}\"></i>", i,
                      kPercent * static_cast<double>(bytes) / static_cast<double>(bar.total_bytes),
                      to_string(static_cast<BarKind>(i)), format_bytes(bytes));
    }
    out += fmt::format("</span><span>{} of {}</span></div>\n", format_bytes(bar.used_bytes),
                       format_bytes(bar.total_bytes));
  }
  out += "<div class=\"key\">";
  for (int i = 0; i < kBarKinds; ++i) {
    out +=
        fmt::format("<span><i class=\"k{}\"></i>{}</span>", i, to_string(static_cast<BarKind>(i)));
  }
  return out + "</div>\n";
}

std::string layers(const Plan& plan) {
  std::string out = "<div class=\"layers\">\n";
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const PlannedLayer& layer = plan.layers[i];
    const std::string_view residency = layer.bank ? to_string(*layer.bank) : "none";
    out += fmt::format("<i class=\"{}{}\" title=\"layer {}: {}{}\">{}</i>\n", residency,
                       layer.uses_vram_slots ? " slots" : "", i, layer.bank ? residency : "dense",
                       layer.uses_vram_slots ? ", cached in slots of VRAM" : "", i);
  }
  out += "</div>\n<div class=\"key\">";
  for (int i = 0; i < kResidencies; ++i) {
    const auto residency = static_cast<Residency>(i);
    if (plan.n_banks(residency) == 0) continue;
    out += fmt::format("<span><i class=\"{0}\"></i>{0}: {1}</span>", to_string(residency),
                       plan.n_banks(residency));
  }
  const auto n_dense =
      std::ranges::count_if(plan.layers, [](const PlannedLayer& layer) { return !layer.bank; });
  if (n_dense > 0) out += fmt::format("<span><i class=\"none\"></i>dense: {}</span>", n_dense);
  if (plan.vram_slots > 0) out += "<span>blue edge: cached in slots of VRAM</span>";
  return out + "</div>\n";
}

std::string parts_table(const Plan& plan) {
  std::string out = "<table>\n" + row("th", {"what", "VRAM", "RAM", "disk"});
  const auto cell = [](uint64_t bytes) { return bytes == 0 ? "" : format_bytes(bytes); };
  for (const PartRow& part : part_rows(plan)) {
    out += row("td", {part.item, cell(part.bytes[0]), cell(part.bytes[1]), cell(part.bytes[2])});
  }
  return out + "</table>\n";
}

std::string alternatives_table(const std::vector<Alternative>& alternatives) {
  if (alternatives.empty()) return "";
  std::string out = "<h2>What would change it</h2>\n<table>\n" +
                    row("th", {"instead", "decode", "prefill", "KV tokens"});
  for (const Alternative& other : alternatives) {
    out += other.plan ? row("td", {other.change, rate_number(other.plan->prediction.decode),
                                   rate_number(other.plan->prediction.prefill),
                                   format_count(static_cast<uint64_t>(other.plan->kv_tokens))})
                      : row("td", {other.change, "does not fit", "", ""});
  }
  return out + "</table>\n";
}

std::string paragraphs(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += fmt::format("<p>{}</p>\n", html_escaped(line));
  return out;
}

}  // namespace

std::string plan_html(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                      const std::vector<Alternative>& alternatives) {
  std::vector<std::string> facts = slot_lines(plan);
  if (plan.pinned_bytes > 0) {
    facts.push_back(fmt::format("{} are page-locked", format_bytes(plan.pinned_bytes)));
  }
  facts.push_back(
      fmt::format("KV cache of {} tokens", format_count(static_cast<uint64_t>(plan.kv_tokens))));
  facts.insert(facts.end(), plan.notes.begin(), plan.notes.end());

  const std::string name = html_escaped(demands.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Plan: {}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      name, kStyle, name);
  out += fmt::format("<p>{}</p>\n<p class=\"soft\">on {}</p>\n", html_escaped(describe(demands)),
                     html_escaped(describe(machine)));
  out += "<div class=\"rates\">\n" + rate_box("decode, one sequence", plan.prediction.decode) +
         rate_box("prefill", plan.prediction.prefill) + "</div>\n";
  out += "<h2>Memory</h2>\n" + bars(plan_bars(plan, demands, machine));
  out += "<h2>Where each layer's experts are</h2>\n" + layers(plan);
  out += paragraphs(facts);
  out += "<h2>What takes how much</h2>\n" + parts_table(plan);
  out += alternatives_table(alternatives);
  out += fmt::format("<p class=\"soft\">penstock {}</p>\n</body>\n</html>\n", version());
  return out;
}

}  // namespace penstock
