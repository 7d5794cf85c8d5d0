// Who may ask: keys, hosts and origins, checked on a request's header before its body is read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

struct HttpRequest;
struct HttpResponse;

struct AccessOptions {
  // One of them must come with every request but those for /health. Empty: everyone may ask.
  std::vector<std::string> api_keys = {};
  // The web page that may ask beside the server's own ("https://app.example"). Empty: none.
  std::string cors_origin = {};
  // Host names, beside localhost and numeric addresses, that a server on the loopback interface
  // answers to. A web page whose name its owner makes mean 127.0.0.1 comes with that name (DNS
  // rebinding).
  std::vector<std::string> allowed_hosts = {};
};

// Which key; takes the same time for every `given` of one length. Nothing: none of them.
std::optional<size_t> find_key(const std::vector<std::string>& keys, std::string_view given);

// Immutable, thread-safe.
class Access {
 public:
  Access(AccessOptions options, bool on_loopback)
      : options_(std::move(options)), on_loopback_(on_loopback) {}

  // What to answer at once: a refusal, or the "go on" that a web page asks for first. Nothing: the
  // request may go to its route, and HttpRequest::key and allow_origin are set.
  std::optional<HttpResponse> check(HttpRequest& request) const;

 private:
  bool knows_host(std::string_view host) const;
  std::optional<HttpResponse> check_origin(HttpRequest& request) const;
  std::optional<HttpResponse> check_key(HttpRequest& request) const;

  const AccessOptions options_;
  const bool on_loopback_;
};

}  // namespace penstock
