#include "text/jinja/objects.h"

#include <algorithm>

#include "text/jinja/compare.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/printing.h"

namespace penstock {
namespace {

JinjaValue bound(JinjaBoundMethod::Method method, JinjaValue self) {
  return JinjaValue(
      JinjaValue::Object(std::make_shared<JinjaBoundMethod>(method, std::move(self))));
}

}  // namespace

// ---- Namespace

Result<std::string> JinjaNamespace::repr(JinjaMeter& meter) const {
  std::string out = "<Namespace {";
  for (size_t i = 0; i < attributes_.entries.size(); ++i) {
    const auto& [key, value] = attributes_.entries[i];
    PENSTOCK_ASSIGN(const std::string name, jinja_repr(meter, key));
    PENSTOCK_ASSIGN(const std::string text, jinja_repr(meter, value));
    PENSTOCK_TRY(meter.has_room(out.size() + text.size()));
    out += fmt::format("{}{}: {}", i > 0 ? ", " : "", name, text);
  }
  return out + "}>";
}

Result<std::optional<JinjaValue>> JinjaNamespace::attribute(JinjaRender& /*render*/,
                                                            std::string_view name) {
  const JinjaValue* value = attributes_.find(name);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

Result<void> JinjaNamespace::set(std::string_view name, JinjaValue value) {
  if (name.starts_with('_')) return underscored(name);
  attributes_.set(jinja_literal(std::string(name)), std::move(value));
  return {};
}

std::unexpected<Error> JinjaNamespace::underscored(std::string_view name) {
  return jinja_error(
      "Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. "
      "Please "
      "rename the attribute.",
      py_quoted(name));
}

// ---- Macro

Result<std::string> JinjaMacro::repr(JinjaMeter& /*meter*/) const {
  return fmt::format("<Macro {}>", py_quoted(code_.name));
}

Result<JinjaValue> JinjaMacro::call(JinjaRender& render, const JinjaArgs& args) {
  const JinjaScopePtr scope = render.new_scope(scope_);
  PENSTOCK_TRY(bind(render, args, scope));
  return render.captured(scope, code_.body);
}

Result<void> JinjaMacro::bind(JinjaRender& render, const JinjaArgs& args,
                              const JinjaScopePtr& scope) const {
  std::vector<bool> used(args.named.size());
  std::vector<const JinjaParameter*> missing;
  for (size_t i = 0; i < code_.parameters.size(); ++i) {
    const JinjaParameter& parameter = code_.parameters[i];
    if (i < args.positional.size()) {
      scope->set(parameter.name, args.positional[i]);
      continue;
    }
    const auto named = std::ranges::find_if(
        args.named, [&](const auto& entry) { return entry.first == parameter.text; });
    if (named != args.named.end()) {
      used[static_cast<size_t>(named - args.named.begin())] = true;
      scope->set(parameter.name, named->second);
    } else {
      missing.push_back(&parameter);
    }
  }
  PENSTOCK_TRY(bind_rest(render, args, used, *scope));
  // Defaults may use the other parameters.
  for (const JinjaParameter* parameter : missing) {
    JinjaValue value = JinjaValue::undefined(
        fmt::format("parameter {} was not provided", py_quoted(parameter->text)));
    if (parameter->fallback) {
      PENSTOCK_ASSIGN(value, render.evaluate_in(scope, *parameter->fallback));
    }
    scope->set(parameter->name, std::move(value));
  }
  return {};
}

// caller, kwargs and varargs: passed to a macro that mentions them, refused by any other.
Result<void> JinjaMacro::bind_rest(JinjaRender& render, const JinjaArgs& args,
                                   std::vector<bool> used, JinjaScope& scope) const {
  const bool has_own_caller = std::ranges::find(code_.parameters, "caller",
                                                &JinjaParameter::text) != code_.parameters.end();
  if (code_.uses_caller && !has_own_caller) {
    JinjaValue caller = JinjaValue::undefined("No caller defined");
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (used[i] || args.named[i].first != "caller") continue;
      used[i] = true;
      caller = args.named[i].second;
    }
    scope.set(JinjaTemplate::kCaller, std::move(caller));
  }
  JinjaDict rest;
  for (size_t i = 0; i < args.named.size(); ++i) {
    if (used[i]) continue;
    if (!code_.uses_kwargs) {
      return jinja_error("macro '{}' takes no keyword argument '{}'", code_.name,
                         args.named[i].first);
    }
    rest.set(jinja_text(render.meter(), args.named[i].first), args.named[i].second);
  }
  if (code_.uses_kwargs) {
    scope.set(JinjaTemplate::kKwargs, jinja_dict(render.meter(), std::move(rest)));
  }
  const size_t n_taken = std::min(code_.parameters.size(), args.positional.size());
  if (code_.uses_varargs) {
    JinjaValues extra(args.positional.begin() + static_cast<std::ptrdiff_t>(n_taken),
                      args.positional.end());
    scope.set(JinjaTemplate::kVarargs, jinja_tuple(render.meter(), std::move(extra)));
  } else if (args.positional.size() > n_taken) {
    return jinja_error("macro '{}' takes not more than {} argument(s)", code_.name,
                       code_.parameters.size());
  }
  return {};
}

Result<std::optional<JinjaValue>> JinjaMacro::attribute(JinjaRender& render,
                                                        std::string_view name) {
  if (name == "name") return jinja_text(render.meter(), code_.name);
  if (name == "catch_kwargs") return JinjaValue(code_.uses_kwargs);
  if (name == "catch_varargs") return JinjaValue(code_.uses_varargs);
  if (name == "caller") return JinjaValue(code_.uses_caller);
  if (name != "arguments") return std::nullopt;
  JinjaValues names;
  for (const JinjaParameter& parameter : code_.parameters) {
    names.push_back(jinja_text(render.meter(), parameter.text));
  }
  return jinja_tuple(render.meter(), std::move(names));
}

// ---- Loop

Result<std::optional<JinjaValue>> JinjaLoop::advance() {
  PENSTOCK_ASSIGN(auto item, peek());
  if (!item) return item;
  ahead_.pop_back();
  ++index_;
  previous_ = std::move(current_);
  current_ = item;
  return item;
}

void JinjaLoop::finish() {
  cursor_.reset();
  outer_.reset();
  ahead_.clear();
  previous_.reset();
  current_.reset();
  changed_.reset();
}

Result<std::optional<JinjaValue>> JinjaLoop::peek() {
  if (ahead_.empty()) {
    if (!cursor_) return std::nullopt;
    PENSTOCK_ASSIGN(auto next, cursor_->next());
    if (!next) return next;
    ahead_.push_back(*std::move(next));
  }
  return ahead_.back();
}

// Of something that does not know its length it reads the rest.
Result<size_t> JinjaLoop::length() {
  if (length_) return *length_;
  std::reverse(ahead_.begin(), ahead_.end());
  while (cursor_) {
    PENSTOCK_ASSIGN(auto next, cursor_->next());
    if (!next) break;
    ahead_.push_back(*std::move(next));
  }
  std::reverse(ahead_.begin(), ahead_.end());
  length_ = index_ + ahead_.size();
  return *length_;
}

Result<std::string> JinjaLoop::repr(JinjaMeter& /*meter*/) const {
  return length_ ? fmt::format("<LoopContext {}/{}>", index_, *length_)
                 : fmt::format("<LoopContext {}/?>", index_);
}

Result<JinjaValue> JinjaLoop::call(JinjaRender& render, const JinjaArgs& args) {
  if (!code_.recursive) {
    return jinja_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (args.positional.size() != 1 || !args.named.empty()) {
    return jinja_error("a recursive loop takes one thing to loop over");
  }
  if (!outer_) return jinja_error("the loop is over");
  return render.recurse(code_, outer_, args.positional.front(), depth0_ + 1);
}

Result<JinjaValue> loop_cycle(JinjaRender& /*render*/, const JinjaValue& self,
                              const JinjaArgs& args) {
  if (args.positional.empty()) return jinja_error("no items for cycling given");
  const auto& loop = static_cast<const JinjaLoop&>(*self.as_object());
  return args.positional[(loop.index_ - 1) % args.positional.size()];
}

Result<JinjaValue> loop_changed(JinjaRender& render, const JinjaValue& self,
                                const JinjaArgs& args) {
  auto& loop = static_cast<JinjaLoop&>(*self.as_object());
  if (loop.changed_ && loop.changed_->size() == args.positional.size()) {
    bool same = true;
    for (size_t i = 0; same && i < args.positional.size(); ++i) {
      PENSTOCK_ASSIGN(same, jinja_equal(render.meter(), (*loop.changed_)[i], args.positional[i]));
    }
    if (same) return JinjaValue(false);
  }
  if (loop.cursor_) loop.changed_ = args.positional;
  return JinjaValue(true);
}

Result<std::optional<JinjaValue>> JinjaLoop::attribute(JinjaRender& /*render*/,
                                                       std::string_view name) {
  if (name == "index") return JinjaValue::integer(index_);
  if (name == "index0") return JinjaValue(static_cast<JinjaInt>(index_) - 1);
  if (name == "first") return JinjaValue(index_ == 1);
  if (name == "depth") return JinjaValue::integer(depth0_ + 1);
  if (name == "depth0") return JinjaValue::integer(depth0_);
  if (name == "cycle") return bound(loop_cycle, JinjaValue(JinjaValue::Object(shared_from_this())));
  if (name == "changed") {
    return bound(loop_changed, JinjaValue(JinjaValue::Object(shared_from_this())));
  }
  if (name == "last") {
    PENSTOCK_ASSIGN(const auto next, peek());
    return JinjaValue(!next);
  }
  if (name == "nextitem") {
    PENSTOCK_ASSIGN(const auto next, peek());
    return next ? *next : JinjaValue::undefined("there is no next item");
  }
  if (name == "previtem") {
    return previous_ ? *previous_ : JinjaValue::undefined("there is no previous item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    PENSTOCK_ASSIGN(const size_t n_items, length());
    const auto length = static_cast<JinjaInt>(n_items);
    const auto index = static_cast<JinjaInt>(index_);
    if (name == "length") return JinjaValue(length);
    return JinjaValue(name == "revindex" ? length - index + 1 : length - index);
  }
  return std::nullopt;
}

}  // namespace penstock
