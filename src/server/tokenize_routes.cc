#include "server/tokenize_routes.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/conversation.h"
#include "server/answer.h"
#include "server/completion_request.h"
#include "server/error_response.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

// A request's body for the model that is served.
struct Body {
  std::shared_ptr<const ServedModel> model = {};
  OrderedJson json = {};

  JsonFields fields() const { return JsonFields(json); }
  const Tokenizer& tokenizer() const { return model->chat->tokenizer(); }
};

Result<Body> read_body(const HttpRequest& request, const ServerState& state) {
  Body body{.model = state.model()};
  if (body.model == nullptr) return std::unexpected(still_loading(state.load_state()));
  PENSTOCK_ASSIGN(body.json, parse_request_body(request.body));
  PENSTOCK_ASSIGN(const auto asked, body.fields().text("model"));
  PENSTOCK_TRY(check_model(asked.value_or(""), *body.model));
  return body;
}

Result<std::vector<int32_t>> ids_of_messages(const Body& body) {
  const JsonFields fields = body.fields();
  Conversation conversation{.messages = *fields.find("messages")};
  if (const OrderedJson* tools = fields.find("tools")) conversation.tools = *tools;
  PENSTOCK_TRY(normalize(conversation));
  return body.model->chat->format(conversation, local_now());
}

Result<std::vector<int32_t>> ids_of_prompt(const Body& body) {
  const JsonFields fields = body.fields();
  PENSTOCK_ASSIGN(const auto text, fields.text("prompt"));
  if (!text) {
    return refuse_field(ErrorKind::kInvalidArgument, "prompt", "is missing, and so is messages");
  }
  PENSTOCK_ASSIGN(const auto add_special, fields.flag("add_special_tokens"));
  return body.tokenizer().encode(*text, {.add_special = add_special.value_or(true)});
}

Result<HttpResponse> try_tokenize(const HttpRequest& request, const ServerState& state) {
  PENSTOCK_ASSIGN(const Body body, read_body(request, state));
  const bool is_chat = body.fields().find("messages") != nullptr;
  PENSTOCK_ASSIGN(const auto ids, is_chat ? ids_of_messages(body) : ids_of_prompt(body));
  PENSTOCK_ASSIGN(const auto with_texts, body.fields().flag("return_token_strs"));
  OrderedJson texts;
  if (with_texts.value_or(false)) {
    texts = OrderedJson::array();
    for (const int32_t id : ids) {
      texts.push_back(body.tokenizer().decode(std::span(&id, 1), /*skip_special=*/false));
    }
  }
  const OrderedJson answer = {{"count", ids.size()},
                              {"max_model_len", body.model->engine->context_limit()},
                              {"tokens", ids},
                              {"token_strs", std::move(texts)}};
  return HttpResponse{.body = dump_answer(answer)};
}

Result<HttpResponse> try_detokenize(const HttpRequest& request, const ServerState& state) {
  PENSTOCK_ASSIGN(const Body body, read_body(request, state));
  const OrderedJson* tokens = body.fields().find("tokens");
  if (tokens == nullptr) return refuse_field(ErrorKind::kInvalidArgument, "tokens", "is missing");
  if (!tokens->is_array()) return wrong_type("tokens", "a list of token ids", *tokens);
  PENSTOCK_ASSIGN(const auto ids, read_ids(*tokens, "tokens"));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (body.tokenizer().has_token(ids[i])) continue;
    return refuse_field(ErrorKind::kInvalidArgument, "tokens",
                        fmt::format("has id {} at [{}], which is no token", ids[i], i));
  }
  const OrderedJson answer = {{"prompt", body.tokenizer().decode(ids, /*skip_special=*/false)}};
  return HttpResponse{.body = dump_answer(answer)};
}

HttpResponse response_of(Result<HttpResponse> result) {
  return result ? *std::move(result) : error_response(result.error());
}

}  // namespace

HttpResponse tokenize(const HttpRequest& request, ServerState& state) {
  return response_of(try_tokenize(request, state));
}

HttpResponse detokenize(const HttpRequest& request, ServerState& state) {
  return response_of(try_detokenize(request, state));
}

}  // namespace penstock
