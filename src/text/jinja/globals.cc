// The functions every template has: jinja2's own and the two of chat templates.
#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/args.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/iterate.h"
#include "text/jinja/objects.h"
#include "text/jinja/printing.h"

namespace penstock {
namespace {

// A global function, or a class as templates see it: something to call.
class Function : public JinjaObject {
 public:
  Function(std::string_view name, JinjaNative function) : name_(name), function_(function) {}
  std::string_view type_name() const override { return "function"; }
  Result<std::string> repr(JinjaMeter& /*meter*/) const override {
    return fmt::format("<function {}>", name_);
  }
  bool is_callable() const override { return true; }
  Result<JinjaValue> call(JinjaRender& render, const JinjaArgs& args) override {
    return function_(render, args);
  }

 private:
  std::string_view name_;
  JinjaNative function_;
};

// Gives its items in turn, for ever.
class Cycler : public JinjaObject, public std::enable_shared_from_this<Cycler> {
 public:
  Cycler(JinjaValues items, size_t depth) : items_(std::move(items)), depth_(depth) {}
  std::string_view type_name() const override { return "Cycler"; }
  size_t depth() const override { return depth_; }

  Result<std::optional<JinjaValue>> attribute(JinjaRender& /*render*/,
                                              std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name == "next") return method(next);
    if (name == "reset") return method(reset);
    return std::nullopt;
  }

 private:
  JinjaValue method(JinjaBoundMethod::Method which) {
    return JinjaValue(JinjaValue::Object(std::make_shared<JinjaBoundMethod>(
        which, JinjaValue(JinjaValue::Object(shared_from_this())))));
  }
  static Result<JinjaValue> next(JinjaRender& /*render*/, const JinjaValue& self,
                                 const JinjaArgs& args) {
    PENSTOCK_TRY(takes_nothing("next", args));
    auto& cycler = static_cast<Cycler&>(*self.as_object());
    const size_t at = std::exchange(cycler.at_, (cycler.at_ + 1) % cycler.items_.size());
    return cycler.items_[at];
  }
  static Result<JinjaValue> reset(JinjaRender& /*render*/, const JinjaValue& self,
                                  const JinjaArgs& args) {
    PENSTOCK_TRY(takes_nothing("reset", args));
    static_cast<Cycler&>(*self.as_object()).at_ = 0;
    return JinjaValue();
  }

  JinjaValues items_;
  size_t depth_;
  size_t at_ = 0;
};

// Nothing the first time it is called, the separator after that.
class Joiner : public JinjaObject {
 public:
  explicit Joiner(JinjaValue separator)
      : separator_(std::move(separator)), depth_(separator_.depth() + 1) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  size_t depth() const override { return depth_; }
  Result<JinjaValue> call(JinjaRender& render, const JinjaArgs& args) override {
    PENSTOCK_TRY(takes_nothing("joiner", args));
    if (std::exchange(used_, true)) return separator_;
    return jinja_text(render.meter(), "");
  }

 private:
  JinjaValue separator_;
  size_t depth_;
  bool used_ = false;
};

Result<JinjaValue> global_raise_exception(JinjaRender& render, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("raise_exception", args, {"message"}, 1));
  PENSTOCK_ASSIGN(std::string message, jinja_str(render.meter(), params.at(0)));
  return std::unexpected(Error{ErrorKind::kInvalidArgument, std::move(message)});
}

std::tm calendar(std::chrono::local_seconds now) {
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(now - day);
  const auto new_year =
      std::chrono::local_days(date.year() / std::chrono::January / std::chrono::day(1));
  std::tm time = {};
  time.tm_year = static_cast<int>(date.year()) - 1900;
  time.tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  time.tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
  time.tm_hour = static_cast<int>(clock.hours().count());
  time.tm_min = static_cast<int>(clock.minutes().count());
  time.tm_sec = static_cast<int>(clock.seconds().count());
  time.tm_wday = static_cast<int>(std::chrono::weekday(day).c_encoding());
  time.tm_yday = static_cast<int>((day - new_year).count());
  time.tm_isdst = -1;
  return time;
}

// What Python's datetime answers itself: microseconds, and the zone that it does not know.
std::string without_python_directives(std::string_view format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      out += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      out += '%';
      out += directive;
    }
  }
  return out;
}

Result<JinjaValue> global_strftime_now(JinjaRender& render, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("strftime_now", args, {"format"}, 1));
  PENSTOCK_ASSIGN(const std::string_view format, params.text(0));
  constexpr size_t kMaxBytes = 4096;
  std::array<char, kMaxBytes> buffer;
  const std::string pattern = without_python_directives(format);
  if (pattern.empty()) return jinja_text(render.meter(), "");
  const std::tm time = calendar(render.now());
  const size_t size = std::strftime(buffer.data(), buffer.size(), pattern.c_str(), &time);
  // Zero also for a format that prints nothing, which only %p and the like could in other locales.
  if (size == 0)
    return jinja_error("strftime_now: the date would be longer than {} bytes", kMaxBytes);
  return jinja_text(render.meter(), std::string(buffer.data(), size));
}

Result<JinjaValue> global_range(JinjaRender& /*render*/, const JinjaArgs& args) {
  constexpr JinjaInt kMaxLength = 100'000;  // the sandbox's MAX_RANGE
  const size_t n = args.positional.size();
  if (n < 1 || n > 3 || !args.named.empty()) return jinja_error("range() takes 1 to 3 integers");
  JinjaInt numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < n; ++i) {
    const auto number = args.positional[i].integral();
    if (!number) {
      return jinja_error("'{}' object cannot be interpreted as an integer",
                         args.positional[i].type_name());
    }
    if (*number > INT64_MAX || *number < INT64_MIN) return jinja_error("a range beyond 64 bits");
    numbers[n == 1 ? 1 : i] = *number;
  }
  JinjaRange range;
  range.start = numbers[0];
  range.stop = numbers[1];
  range.step = numbers[2];
  if (range.step == 0) return jinja_error("range() arg 3 must not be zero");
  const JinjaInt span = range.step > 0 ? range.stop - range.start : range.start - range.stop;
  const JinjaInt stride = range.step > 0 ? range.step : -range.step;
  const JinjaInt length = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (length > kMaxLength) {
    return jinja_error("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                       py_integer(kMaxLength));
  }
  range.length = static_cast<size_t>(length);
  return JinjaValue(std::make_shared<const JinjaRange>(range));
}

// Python's dict(mapping or pairs, **named).
Result<JinjaDict> dict_from(JinjaRender& render, std::string_view callee, const JinjaArgs& args) {
  if (args.positional.size() > 1) {
    return jinja_error("{} expected at most 1 argument, got {}", callee, args.positional.size());
  }
  JinjaDict dict;
  JinjaMeter& meter = render.meter();
  if (!args.positional.empty()) {
    const JinjaValue& source = args.positional.front();
    if (const JinjaDict* other = source.as_dict()) {
      PENSTOCK_TRY(meter.step(other->entries.size()));
      for (const auto& [key, value] : other->entries) dict.set(key, value);
    } else {
      PENSTOCK_ASSIGN(const JinjaValues pairs, items_of(meter, source));
      for (const JinjaValue& pair : pairs) {
        PENSTOCK_ASSIGN(const JinjaValues parts, items_of(meter, pair));
        if (parts.size() != 2) {
          return jinja_error("dictionary update sequence element has length {}; 2 is required",
                             parts.size());
        }
        PENSTOCK_TRY(hashable(parts[0]));
        dict.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) dict.set(jinja_text(meter, name), value);
  return dict;
}

Result<JinjaValue> global_dict(JinjaRender& render, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(JinjaDict dict, dict_from(render, "dict", args));
  return jinja_dict(render.meter(), std::move(dict));
}

Result<JinjaValue> global_namespace(JinjaRender& render, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(JinjaDict dict, dict_from(render, "namespace", args));
  for (const auto& [key, value] : dict.entries) {
    if (const auto name = text_of(key); name && name->starts_with('_')) {
      return JinjaNamespace::underscored(*name);
    }
  }
  constexpr size_t kBytes = 256;
  JinjaCharge charge = render.meter().charge(kBytes + dict.entries.size() * 3 * sizeof(JinjaValue));
  return render.own(std::make_shared<JinjaNamespace>(std::move(dict), std::move(charge)));
}

Result<JinjaValue> global_cycler(JinjaRender& render, const JinjaArgs& args) {
  if (args.positional.empty()) return jinja_error("at least one item has to be provided");
  if (!args.named.empty()) return jinja_error("cycler() takes no keyword arguments");
  size_t deepest = 0;
  for (const JinjaValue& item : args.positional) deepest = std::max(deepest, item.depth());
  return JinjaValue(JinjaValue::Object(
      std::make_shared<Cycler>(args.positional, render.meter().depth_around(deepest))));
}

Result<JinjaValue> global_joiner(JinjaRender& render, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("joiner", args, {"sep"}));
  JinjaValue separator = params.get(0) != nullptr ? params.at(0) : jinja_text(render.meter(), ", ");
  render.meter().depth_around(separator.depth());
  return JinjaValue(JinjaValue::Object(std::make_shared<Joiner>(std::move(separator))));
}

constexpr std::pair<std::string_view, JinjaNative> kGlobals[] = {
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
    {"raise_exception", global_raise_exception},
    {"strftime_now", global_strftime_now},
};

}  // namespace

std::optional<JinjaValue> find_global(std::string_view name) {
  for (const auto& [known, function] : kGlobals) {
    if (known == name) {
      return JinjaValue(JinjaValue::Object(std::make_shared<Function>(known, function)));
    }
  }
  return std::nullopt;
}

}  // namespace penstock
