#include "cli/plan/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"
#include "cli/plan/picture.h"
#include "cli/table.h"
#include "cli/wrapped.h"

namespace penstock {
namespace {

constexpr int kNarrowest = 40;
constexpr int kLabelColumns = 6;    // "VRAM  "
constexpr int kAmountColumns = 22;  // "  120.2 of 1023.9 GiB"

struct Glyph {
  std::string_view block;
  std::string_view letter;
};
constexpr std::array<Glyph, kBarKinds> kBarGlyphs = {
    {{"█", "W"}, {"▓", "E"}, {"▒", "K"}, {"▚", "R"}, {"░", "o"}, {"·", "."}}};
constexpr std::array<Glyph, kResidencies> kBankGlyphs = {
    {{"█", "V"}, {"▓", "P"}, {"▒", "L"}, {"░", "p"}, {"·", "d"}}};
constexpr Glyph kDenseGlyph = {"-", "-"};

class Writer {
 public:
  Writer(const Plan& plan, const ModelDemands& demands, const Machine& machine,
         const TextStyle& style)
      : plan_(plan),
        demands_(demands),
        machine_(machine),
        columns_(std::max(style.columns, kNarrowest)),
        has_blocks_(style.has_blocks) {}

  std::string write(const std::vector<Alternative>& alternatives) {
    heading();
    bars();
    grid();
    parts();
    predictions();
    others(alternatives);
    return std::move(out_);
  }

 private:
  std::string_view glyph(const Glyph& glyph) const {
    return has_blocks_ ? glyph.block : glyph.letter;
  }
  void line(std::string_view text, int indent = 0) { out_ += wrapped(text, columns_, indent); }
  void gap() { out_ += '\n'; }

  void heading() {
    line(fmt::format("{}: {}", demands_.name, describe(demands_)), 2);
    line(fmt::format("on {}", describe(machine_)), 2);
    gap();
  }

  void bars() {
    const int cells = columns_ - kLabelColumns - kAmountColumns - 2;  // and the bar's two ends
    for (const PlanBar& bar : plan_bars(plan_, demands_, machine_)) {
      out_ += fmt::format("{:<{}}[", to_string(bar.place), kLabelColumns);
      const auto of_kind = bar_cells(bar, cells);
      int left = cells;
      for (size_t i = 0; i < of_kind.size(); ++i) {
        for (int n = 0; n < of_kind[i]; ++n) out_ += glyph(kBarGlyphs[i]);
        left -= of_kind[i];
      }
      out_ += fmt::format("{}]  {:.1f} of {}\n", std::string(static_cast<size_t>(left), ' '),
                          static_cast<double>(bar.used_bytes) / static_cast<double>(kGiB),
                          gib(bar.total_bytes));
    }
    std::vector<std::string> legend;
    for (int i = 0; i < kBarKinds; ++i) {
      legend.push_back(fmt::format("{} {}", glyph(kBarGlyphs[static_cast<size_t>(i)]),
                                   to_string(static_cast<BarKind>(i))));
    }
    legend_lines(legend);
    gap();
  }

  // Whole entries on lines that begin where bars do.
  void legend_lines(const std::vector<std::string>& entries) {
    int column = 0;
    for (const std::string& entry : entries) {
      const auto width = static_cast<int>(std::ranges::count_if(
          entry, [](const char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
      if (column == 0 || column + 2 + width > columns_) {
        if (column > 0) out_ += '\n';
        out_ += std::string(kLabelColumns, ' ') + entry;
        column = kLabelColumns + width;
      } else {
        out_ += "  " + entry;
        column += 2 + width;
      }
    }
    out_ += '\n';
  }

  // The layers from left to right, ten in a group, each group with its first layer's number.
  void grid() {
    constexpr int kGroup = 10;
    const int groups_a_line = std::max(1, (columns_ - kLabelColumns) / (kGroup + 1));
    const int per_line = groups_a_line * kGroup;
    for (int first = 0; first < static_cast<int>(plan_.layers.size()); first += per_line) {
      out_ +=
          fmt::format("{:<{}}", first == 0 ? "layers" : fmt::format("{:>5}", first), kLabelColumns);
      const int end = std::min(first + per_line, static_cast<int>(plan_.layers.size()));
      for (int i = first; i < end; ++i) {
        if (i % kGroup == 0) out_ += ' ';
        const auto& bank = plan_.layers[static_cast<size_t>(i)].bank;
        out_ += glyph(bank ? kBankGlyphs[static_cast<size_t>(*bank)] : kDenseGlyph);
      }
      out_ += '\n';
    }
    std::vector<std::string> legend;
    for (int i = 0; i < kResidencies; ++i) {
      const auto residency = static_cast<Residency>(i);
      const int n = plan_.n_banks(residency);
      if (n == 0) continue;
      legend.push_back(fmt::format("{} {} {}", glyph(kBankGlyphs[static_cast<size_t>(i)]),
                                   to_string(residency), n));
    }
    const auto n_dense =
        std::ranges::count_if(plan_.layers, [](const PlannedLayer& layer) { return !layer.bank; });
    if (n_dense > 0) legend.push_back(fmt::format("- dense {}", n_dense));
    legend_lines(legend);
    gap();
  }

  void parts() {
    using enum Table::Align;
    Table table({{"what"}, {"VRAM", kRight}, {"RAM", kRight}, {"disk", kRight}});
    std::array<uint64_t, kPlaces> total = {};
    const auto cell = [](uint64_t bytes) { return bytes == 0 ? "" : format_bytes(bytes); };
    for (const PartRow& row : part_rows(plan_)) {
      table.add_row({row.item, cell(row.bytes[0]), cell(row.bytes[1]), cell(row.bytes[2])});
      for (size_t i = 0; i < total.size(); ++i) total[i] += row.bytes[i];
    }
    table.add_row({"all", cell(total[0]), cell(total[1]), cell(total[2])});
    const uint64_t vram =
        plan_.gpu ? machine_.gpus[static_cast<size_t>(*plan_.gpu)].vram_free_bytes : 0;
    table.add_row({"there is", cell(vram), cell(machine_.ram.available_bytes), ""});
    out_ += table.text(columns_);
    gap();
  }

  void predictions() {
    for (const std::string& slots : slot_lines(plan_)) line(slots, 2);
    if (plan_.pinned_bytes > 0) {
      line(fmt::format("{} are page-locked", format_bytes(plan_.pinned_bytes)), 2);
    }
    line(fmt::format("KV cache of {} tokens", format_count(static_cast<uint64_t>(plan_.kv_tokens))),
         2);
    for (const std::string& note : plan_.notes) line(note, 2);
    gap();
    constexpr int kRateColumns = 9;
    line(fmt::format("decode   {}", rate_text(plan_.prediction.decode)), kRateColumns);
    line(fmt::format("prefill  {}", rate_text(plan_.prediction.prefill)), kRateColumns);
  }

  void others(const std::vector<Alternative>& alternatives) {
    if (alternatives.empty()) return;
    gap();
    using enum Table::Align;
    Table table({{"instead"}, {"decode", kRight}, {"prefill", kRight}, {"KV tokens", kRight}});
    for (const Alternative& other : alternatives) {
      if (other.plan) {
        table.add_row({other.change, rate_number(other.plan->prediction.decode),
                       rate_number(other.plan->prediction.prefill),
                       format_count(static_cast<uint64_t>(other.plan->kv_tokens))});
      } else {
        table.add_row({other.change, "does not fit", "", ""});
      }
    }
    out_ += table.text(columns_);
  }

  static std::string gib(uint64_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
  }

  const Plan& plan_;
  const ModelDemands& demands_;
  const Machine& machine_;
  int columns_;
  bool has_blocks_;
  std::string out_ = {};
};

}  // namespace

std::string plan_text(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                      const std::vector<Alternative>& alternatives, const TextStyle& style) {
  return Writer(plan, demands, machine, style).write(alternatives);
}

}  // namespace penstock
