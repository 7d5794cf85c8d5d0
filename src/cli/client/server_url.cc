#include "cli/client/server_url.h"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kUnix = "unix://";

template <class... Args>
std::unexpected<Error> refuse(std::string_view url, fmt::format_string<Args...> format,
                              Args&&... args) {
  return fail(ErrorKind::kInvalidArgument, "the URL \"{}\" {}", url,
              fmt::format(format, std::forward<Args>(args)...));
}

// Anything that could end the request line or a header field early.
bool has_spaces_or_controls(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7F; });
}

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

Result<uint16_t> parse_port(std::string_view text, std::string_view url) {
  uint16_t port = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (ec != std::errc() || end != text.data() + text.size() || port == 0) {
    return refuse(url, "has the port \"{}\", expected 1 to 65535", text);
  }
  return port;
}

// "host", "host:port", "[::1]:port".
Result<void> parse_authority(std::string_view authority, ServerUrl& url) {
  std::string_view after_host;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return refuse(url.text, "has a \"[\" without \"]\"");
    url.host = authority.substr(1, close - 1);
    after_host = authority.substr(close + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    after_host = authority.substr(colon);
  }
  if (url.host.empty()) return refuse(url.text, "names no host");
  if (after_host.empty()) return {};
  if (after_host.front() != ':') return refuse(url.text, "has \"{}\" after its host", after_host);
  PENSTOCK_ASSIGN(url.port, parse_port(after_host.substr(1), url.text));
  return {};
}

}  // namespace

std::string ServerUrl::authority() const {
  if (is_unix()) return "localhost";
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<ServerUrl> parse_server_url(std::string_view text) {
  ServerUrl url = {.text = std::string(text)};
  if (has_spaces_or_controls(text)) return refuse(text, "has a space or control character in it");
  if (text.starts_with(kUnix)) {
    url.socket = text.substr(kUnix.size());
    if (!url.socket.starts_with('/')) {
      return refuse(text, "must be unix:// and the socket's absolute path");
    }
    return url;
  }
  if (!text.starts_with(kHttp)) {
    return refuse(text, "must start with http:// or unix:// (TLS is a proxy's work)");
  }
  const std::string_view rest = text.substr(kHttp.size());
  if (rest.find_first_of("@?#") != std::string_view::npos) {
    return refuse(text, "may have a host, a port and a path, nothing else");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  PENSTOCK_TRY(parse_authority(rest.substr(0, slash), url));
  url.prefix = without_suffix(without_suffix(without_suffix(rest.substr(slash), "/"), "/v1"), "/");
  return url;
}

}  // namespace penstock
