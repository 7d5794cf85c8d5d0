// One HTTP call as the client's callers see it: what to send, what came back, why nothing good did.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock {

struct HttpCall {
  std::string method = "GET";
  std::string path = {};  // "/v1/models"
  std::string body = {};  // JSON; empty: none
};

struct HttpReply {
  unsigned status = 200;
  std::string body = {};  // empty where a sink took it
};

struct CallFailure {
  enum class Cause {
    kConnect,   // nobody listens there, or the host is not known
    kTimeout,   // no byte for too long
    kCut,       // the connection ended before the answer did
    kNotHttp,   // what answers breaks HTTP's rules, or the answer is not what was asked for
    kRefused,   // an HTTP status other than 2xx
    kInStream,  // an error object in a stream that had begun
    kStopped,   // by the caller
  };
  Cause cause = Cause::kConnect;
  unsigned status = 0;  // with kRefused
  std::string message = {};

  // What failures of one kind are counted under: "timeout", "HTTP 429".
  std::string label() const;
  Error error() const;
};

template <class T>
using CallResult = std::expected<T, CallFailure>;

// Called with each piece of a successful reply's body as it comes; false: the rest is not wanted.
using BodySink = std::function<bool(std::string_view)>;

// The server's own words from an error body, on one line and without control characters; empty when
// it has none that are known. Shapes: {"error": {"message": ...}}, {"error": ...}, {"message":
// ...},
// {"detail": ...}.
std::string error_message(std::string_view body);

}  // namespace penstock
