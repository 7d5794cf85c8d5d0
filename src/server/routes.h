// Which request goes where: the table of paths and methods.
#pragma once

#include <string_view>
#include <variant>

#include "server/answer.h"
#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

struct Route {
  std::string_view path = {};  // ends with '/': whatever follows belongs to it
  std::string_view method = {};
  // One of the two: at once, or generated text.
  HttpResponse (*respond)(const HttpRequest& request, ServerState& state) = nullptr;
  const AnswerRoute* answer = nullptr;
  bool takes_time = false;  // to respond: not on the sockets' thread
};

// What to do with a request: a route, or what to answer where there is none.
std::variant<const Route*, HttpResponse> find_route(const HttpRequest& request);

}  // namespace penstock
