// A model's chat template: Jinja that turns messages and tools into the prompt's text.
//
// Renders what Python's jinja2 renders under transformers' settings, for everything a template that
// stands alone can say. Templates come with models and are not trusted: whatever one does, a render
// ends, within its limits, with text or an error. It needs up to 2 MiB of stack.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/limits.h"

namespace penstock {

struct JinjaTemplate;

// Immutable after parsing and thread-safe: each render has its own state. Cheap to copy.
class ChatTemplate {
 public:
  // kInvalidData with the line for what is no template; kUnsupported for include, import and other
  // things that need more than this one template; kExhausted when its syntax is nested deeper than
  // `limits` allow.
  static Result<ChatTemplate> parse(std::string_view source, TemplateLimits limits = {});

  // `inputs` is an object of the template's variables (messages, tools, add_generation_prompt,
  // bos_token,
  // ...), its order of keys kept; `now` is what strftime_now sees.
  //   kInvalidArgument  the template called raise_exception: exactly its message. Or an input is
  //   unusable. kInvalidData      the template failed: "line N: why" kExhausted        it passed
  //   one of its limits
  Result<std::string> render(const OrderedJson& inputs, std::chrono::local_seconds now) const;

 private:
  ChatTemplate(std::shared_ptr<const JinjaTemplate> code, TemplateLimits limits)
      : code_(std::move(code)), limits_(limits) {}

  std::shared_ptr<const JinjaTemplate> code_;
  TemplateLimits limits_;
};

}  // namespace penstock
