#include "server/access.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>

#include "server/error_response.h"
#include "server/http_stream.h"

namespace penstock {
namespace {

namespace beast = boost::beast;

constexpr std::string_view kBearer = "bearer ";

bool same_secret(std::string_view given, std::string_view key) {
  volatile unsigned difference = given.size() == key.size() ? 0 : 1;  // volatile: no early end
  for (size_t i = 0; i < given.size(); ++i) {
    difference = difference | static_cast<unsigned>(given[i] ^ key[i % key.size()]);
  }
  return difference == 0;
}

// "localhost:8080" and "[::1]:8080" without the port and the brackets.
std::string_view without_port(std::string_view host) {
  const size_t bracket = host.find(']');
  if (host.starts_with('[') && bracket != host.npos) return host.substr(1, bracket - 1);
  return host.substr(0, host.rfind(':'));
}

bool is_numeric(std::string_view host) {
  boost::system::error_code ec;
  boost::asio::ip::make_address(host, ec);
  return !ec;
}

bool changes_something(const HttpRequest& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

HttpResponse refusal(unsigned status, std::string_view code, std::string_view message) {
  return {.status = status, .body = error_body(status, message, code)};
}

}  // namespace

std::optional<size_t> find_key(const std::vector<std::string>& keys, std::string_view given) {
  std::optional<size_t> found;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (same_secret(given, keys[i])) found = i;
  }
  return found;
}

std::optional<HttpResponse> Access::check(HttpRequest& request) const {
  // Nothing but a program that is no browser leaves the host out.
  if (on_loopback_ && !request.host.empty() && !knows_host(without_port(request.host))) {
    return refusal(403, "unknown_host",
                   fmt::format("this server does not answer to the host name \"{}\" "
                               "(--allowed-host makes it)",
                               request.host));
  }
  if (auto answer = check_origin(request)) return answer;
  if (auto refused = check_key(request)) {
    add_cors_headers(*refused, request);
    return refused;
  }
  return std::nullopt;
}

bool Access::knows_host(std::string_view host) const {
  if (is_numeric(host) || beast::iequals(host, "localhost")) return true;
  return std::ranges::any_of(options_.allowed_hosts, [&](const std::string& allowed) {
    return beast::iequals(host, allowed);
  });
}

std::optional<HttpResponse> Access::check_origin(HttpRequest& request) const {
  const std::string& origin = request.origin;
  if (origin.empty()) return std::nullopt;
  if (!options_.cors_origin.empty() && origin == options_.cors_origin) {
    request.allow_origin = origin;
    if (request.method != "OPTIONS") return std::nullopt;
    HttpResponse go_on{.status = 204,
                       .headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                                   {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
                                   {"Access-Control-Max-Age", "7200"}}};
    add_cors_headers(go_on, request);
    return go_on;
  }
  const size_t scheme = origin.find("://");
  const bool own = scheme != std::string::npos && origin.substr(scheme + 3) == request.host;
  if (own || !changes_something(request)) return std::nullopt;
  return refusal(
      403, "foreign_origin",
      fmt::format("web pages of {} may not ask this server (--cors-origin lets them)", origin));
}

std::optional<HttpResponse> Access::check_key(HttpRequest& request) const {
  if (options_.api_keys.empty() || request.path == "/health") return std::nullopt;
  const std::string_view given = request.authorization;
  const bool is_bearer =
      given.size() > kBearer.size() && beast::iequals(given.substr(0, kBearer.size()), kBearer);
  if (is_bearer) request.key = find_key(options_.api_keys, given.substr(kBearer.size()));
  if (request.key) return std::nullopt;
  HttpResponse refused =
      refusal(401, "invalid_api_key",
              given.empty() ? "this server wants an API key: send \"Authorization: Bearer KEY\""
                            : "this is no API key of this server");
  refused.headers.emplace_back("WWW-Authenticate", "Bearer");
  return refused;
}

}  // namespace penstock
