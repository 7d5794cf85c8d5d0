#include "server/error_response.h"

#include "base/check.h"
#include "base/json.h"

namespace penstock {
namespace {

struct Row {
  ErrorKind kind;
  unsigned status;
  std::string_view type;
  std::string_view code;  // empty: null
};

constexpr Row kTable[] = {
    {ErrorKind::kInvalidArgument, 400, "invalid_request_error", ""},
    {ErrorKind::kInvalidData, 400, "invalid_request_error", ""},
    {ErrorKind::kUnsupported, 400, "invalid_request_error", "unsupported"},
    {ErrorKind::kNotFound, 404, "invalid_request_error", "not_found"},
    {ErrorKind::kIo, 500, "server_error", ""},
    {ErrorKind::kExhausted, 429, "rate_limit_error", "queue_full"},
    {ErrorKind::kUnavailable, 503, "service_unavailable_error", ""},
    {ErrorKind::kCancelled, 503, "service_unavailable_error", "cancelled"},
    {ErrorKind::kInternal, 500, "server_error", ""},
};

const Row& row(ErrorKind kind) {
  for (const Row& candidate : kTable) {
    if (candidate.kind == kind) return candidate;
  }
  PENSTOCK_CHECK(false, "an error kind without a row");
}

std::string body_of(std::string_view message, std::string_view type, std::string_view param,
                    std::string_view code) {
  const auto text_or_null = [](std::string_view text) {
    return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
  };
  const OrderedJson body = {{"error",
                             {{"message", message},
                              {"type", type},
                              {"param", text_or_null(param)},
                              {"code", text_or_null(code)}}}};
  // A message may quote bytes of the client's that are not UTF-8.
  return body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

unsigned http_status(ErrorKind kind) { return row(kind).status; }

std::string error_body(const Error& error) {
  return body_of(error.text(), row(error.kind).type, error.param, row(error.kind).code);
}

HttpResponse error_response(const Error& error) {
  const unsigned status = http_status(error.kind);
  return {
      .status = status, .body = error_body(error), .retry_later = status == 429 || status == 503};
}

std::string error_body(unsigned status, std::string_view message, std::string_view code) {
  return body_of(message, status < 500 ? "invalid_request_error" : "server_error", "", code);
}

Error still_loading(const LoadState& state) {
  return {.kind = ErrorKind::kUnavailable,
          .message = fmt::format("the model is still loading: {}, {:.0f} %", state.stage,
                                 100.0 * state.fraction)};
}

Error unknown_model(std::string_view asked, std::string_view served) {
  return {.kind = ErrorKind::kNotFound,
          .message = fmt::format("there is no model \"{}\": this server has \"{}\"", asked, served),
          .param = "model"};
}

}  // namespace penstock
