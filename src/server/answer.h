// An answer of generated text, from the request's body to its last byte: the engine's requests
// behind it, one for each choice, and the client before it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "server/answer_head.h"
#include "server/answer_writer.h"
#include "server/generation_fields.h"
#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

// What a route makes of a request's body.
struct AnswerPlan {
  AnswerHead head = {};
  std::vector<GenerationRequest> choices = {};  // choice i answers prompt i / n_per_prompt
  size_t n_per_prompt = 1;
  bool stream = false;
  std::unique_ptr<AnswerWriter> writer = {};
};

// A plan with the choices that `fields` asks of each of `prompts`, and no writer.
AnswerPlan plan_choices(AnswerHead head, const GenerationFields& fields,
                        const std::vector<std::vector<int32_t>>& prompts);

// Refuses a request for another model than the one served.
Result<void> check_model(std::string_view asked, const ServedModel& model);

// A route: how its bodies are read, and what its clients call the prompt.
struct AnswerRoute {
  std::string_view path = {};
  Result<AnswerPlan> (*plan)(std::string_view body, const ServedModel& model) = nullptr;
  std::string_view prompt_field = "prompt";
};

// False when the connection is to be closed. `route` is a constant.
boost::asio::awaitable<bool> answer(std::shared_ptr<HttpStream> http, const HttpRequest& request,
                                    const AnswerRoute& route, ServerState& state);

}  // namespace penstock
