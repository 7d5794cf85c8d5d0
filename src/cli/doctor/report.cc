#include "cli/doctor/report.h"

#include <algorithm>

#include "cli/wrapped.h"

namespace penstock {
namespace {

constexpr int kNarrowest = 60;
constexpr int kRowColumns = 14;
constexpr int kVerdictColumns = 9;  // "  missing"

std::string line(std::string_view row, std::string_view found, std::string_view verdict,
                 int columns) {
  const int end = columns - kVerdictColumns;
  std::string text =
      wrapped(fmt::format("{:<{}}", row, kRowColumns) + std::string(found), end, kRowColumns);
  const size_t first_end = text.find('\n');
  const std::string first = text.substr(0, first_end);
  return fmt::format("{:<{}}  {}", first, end, verdict) + text.substr(first_end);
}

OrderedJson holder_json(const GpuHolder& holder) {
  OrderedJson json = {{"gpu", holder.gpu}, {"pid", holder.process.pid}};
  json["vram_bytes"] =
      holder.process.vram_bytes ? OrderedJson(*holder.process.vram_bytes) : nullptr;
  json["name"] = holder.info ? OrderedJson(holder.info->name) : nullptr;
  json["parent"] = holder.info ? OrderedJson(holder.info->parent) : nullptr;
  json["rss_bytes"] = holder.info ? OrderedJson(holder.info->rss_bytes) : nullptr;
  json["may_hold_pinned_memory"] = true;
  return json;
}

OrderedJson gpu_link_json(const std::optional<GpuMeasurement>& gpu) {
  if (!gpu) return {};
  return {{"to_gpu_gb_s", gpu->to_gpu},
          {"to_host_gb_s", gpu->to_host},
          {"experts_to_gpu_gb_s", gpu->experts_to_gpu},
          {"pageable_to_gpu_gb_s", gpu->pageable_to_gpu},
          {"pinned_bytes", gpu->pins.pinned_bytes},
          {"pin_was_refused", gpu->pins.was_refused}};
}

}  // namespace

std::string doctor_text(const std::vector<Finding>& findings, int columns) {
  columns = std::max(columns, kNarrowest);
  std::string text = line("what", "found", "verdict", columns);
  for (const Finding& finding : findings) {
    text += line(finding.row, finding.found, to_string(finding.verdict), columns);
    for (const std::string& advice : finding.advice) {
      text += "  " + wrapped("> " + advice, columns - 2, /*indent=*/4);
    }
  }
  return text;
}

OrderedJson doctor_json(const Examination& examination, const std::vector<Finding>& findings,
                        const std::filesystem::path& saved_to) {
  OrderedJson rows = OrderedJson::array();
  for (const Finding& finding : findings) {
    rows.push_back({{"row", finding.row},
                    {"found", finding.found},
                    {"verdict", to_string(finding.verdict)},
                    {"advice", finding.advice}});
  }
  OrderedJson holders = OrderedJson::array();
  for (const GpuHolder& holder : examination.holders) holders.push_back(holder_json(holder));
  const LockProbe& locks = examination.measured.locks;
  OrderedJson json = {{"findings", rows}, {"profile", to_json(examination.measured.profile)}};
  json["saved_to"] = saved_to.empty() ? OrderedJson() : OrderedJson(saved_to.string());
  json["locks"] = {{"locked_bytes", locks.locked_bytes}, {"was_refused", locks.was_refused}};
  json["gpu_processes"] = holders;
  json["gpu_link"] = gpu_link_json(examination.measured.gpu);
  return json;
}

}  // namespace penstock
