// Errors as OpenAI's clients understand them: one table from kinds to HTTP statuses.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

unsigned http_status(ErrorKind kind);

// {"error": {"message", "type", "param", "code"}}
std::string error_body(const Error& error);
HttpResponse error_response(const Error& error);
// For what HTTP itself refuses, with its status alone.
std::string error_body(unsigned status, std::string_view message, std::string_view code = {});

Error still_loading(const LoadState& state);
Error unknown_model(std::string_view asked, std::string_view served);

}  // namespace penstock
