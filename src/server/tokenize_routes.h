// POST /tokenize and /detokenize, as vLLM's server has them: what a text costs, and what ids say.
#pragma once

#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

// {"prompt": text, "add_special_tokens": true} or {"messages": [...], "tools": [...]}, each with
// "return_token_strs": false; answers {"count", "max_model_len", "tokens", "token_strs"}.
HttpResponse tokenize(const HttpRequest& request, ServerState& state);
// {"tokens": [ids]}; answers {"prompt": text}.
HttpResponse detokenize(const HttpRequest& request, ServerState& state);

}  // namespace penstock
