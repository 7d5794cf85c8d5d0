#include "text/chat_template.h"

#include "base/utf8.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace penstock {

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, TemplateLimits limits) {
  if (!is_utf8(source)) {
    return fail(ErrorKind::kInvalidData, "the template is not valid UTF-8");
  }
  PENSTOCK_ASSIGN(std::shared_ptr<const JinjaTemplate> code, parse_template(source, limits));
  return ChatTemplate(std::move(code), limits);
}

Result<std::string> ChatTemplate::render(const OrderedJson& inputs,
                                         std::chrono::local_seconds now) const {
  JinjaRender render(*code_, limits_, now);
  auto text = render.run(inputs);
  // What raise_exception says is meant for the user as it stands.
  if (!text && text.error().kind != ErrorKind::kInvalidArgument) {
    return std::unexpected(text.error().in(fmt::format("line {}", render.line())));
  }
  return text;
}

}  // namespace penstock
