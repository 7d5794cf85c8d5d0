#include "cli/client/ctl_view.h"

#include <initializer_list>

#include "base/units.h"
#include "cli/table.h"

namespace penstock {
namespace {

// The value below these keys, or null.
const Json& at(const Json& answer, std::initializer_list<std::string_view> keys) {
  static const Json kNone;
  const Json* value = &answer;
  for (const std::string_view key : keys) {
    if (!value->is_object() || !value->contains(key)) return kNone;
    value = &(*value)[key];
  }
  return *value;
}

std::string text(const Json& value) {
  if (!value.is_string()) return "?";
  std::string shown = value.get<std::string>();
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  }
  return shown;
}

std::string count(const Json& value) {
  return value.is_number_unsigned() ? format_count(value.get<uint64_t>()) : "?";
}

std::string duration(const Json& value) {
  return value.is_number() ? format_seconds(value.get<double>()) : "?";
}

// " (62 %)"; nothing before there was a prompt.
std::string hit_share(const Json& prefix) {
  const Json& prompt = at(prefix, {"prompt_tokens"});
  const Json& hit = at(prefix, {"hit_tokens"});
  if (!prompt.is_number() || !hit.is_number() || prompt.get<double>() <= 0) return "";
  return fmt::format(" ({:.0f} %)", 100 * hit.get<double>() / prompt.get<double>());
}

}  // namespace

std::string view_status(const Json& answer, int columns) {
  Table table({{"model"}, {text(at(answer, {"model"}))}});
  const auto add = [&](std::string name, std::string value) {
    table.add_row({std::move(name), std::move(value)});
  };
  add("state", text(at(answer, {"state"})));
  add("version", text(at(answer, {"version"})));
  add("up for", duration(at(answer, {"uptime_s"})));
  add("requests", fmt::format("{} running, {} waiting", count(at(answer, {"running"})),
                              count(at(answer, {"waiting"}))));
  add("connections", count(at(answer, {"connections"})));
  add("KV pages",
      fmt::format("{} free, {} kept for prefixes, {} in all", count(at(answer, {"pages", "free"})),
                  count(at(answer, {"pages", "cached"})), count(at(answer, {"pages", "total"}))));
  add("prefix hits",
      fmt::format("{} of {} prompt tokens{}", count(at(answer, {"prefix", "hit_tokens"})),
                  count(at(answer, {"prefix", "prompt_tokens"})),
                  hit_share(at(answer, {"prefix"}))));
  add("tokens", fmt::format("{} prefilled, {} decoded", count(at(answer, {"tokens", "prefill"})),
                            count(at(answer, {"tokens", "decode"}))));
  return table.text(columns);
}

std::string view_requests(const Json& answer, int columns) {
  constexpr auto kRight = Table::Align::kRight;
  const Json& list = at(answer, {"data"});
  if (!list.is_array() || list.empty()) return "No request is waiting or running.\n";
  Table table({{.title = "id", .is_whole = true},
               {"route"},
               {"state"},
               {"prompt", kRight},
               {"answer", kRight},
               {"age", kRight}});
  for (const Json& request : list) {
    table.add_row({text(at(request, {"id"})), text(at(request, {"route"})),
                   text(at(request, {"state"})), count(at(request, {"prompt_tokens"})),
                   count(at(request, {"completion_tokens"})), duration(at(request, {"age_s"}))});
  }
  return table.text(columns);
}

std::string view_cancel(const Json& answer, int /*columns*/) {
  return fmt::format("{} is cancelled.\n", text(at(answer, {"id"})));
}

std::string view_drop_cache(const Json& answer, int /*columns*/) {
  return fmt::format("{} KV pages were freed.\n", count(at(answer, {"pages_freed"})));
}

std::string view_stop(const Json& /*answer*/, int /*columns*/) {
  return "The server lets running answers end and takes no new ones.\n";
}

}  // namespace penstock
