// The HTTP server: OpenAI's API over one engine, from before the model is loaded until
// the last answer is sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "engine/chat.h"
#include "engine/engine.h"
#include "server/access.h"

namespace penstock {

// Whose prompts may share KV pages where they begin alike. Who shares can learn from the time an
// answer takes whether somebody else has sent its beginning.
enum class PrefixSharing : uint8_t {
  kKey,  // those of one API key; without keys, everybody's
  kAll,  // everybody's
  kOff,  // nobody's: not even a client's own
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address
  uint16_t port = 0;               // 0: a free one
  std::string unix_socket = {};    // a path to listen on instead; for this user alone
  size_t max_connections = 512;
  size_t max_header_bytes = 16 * 1024;
  size_t max_body_bytes = 8 * 1024 * 1024;
  std::chrono::milliseconds read_timeout = std::chrono::seconds(30);   // header and body
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(75);   // between requests
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);  // no byte taken for so long
  // An answer that takes longer is given up. 0: none is.
  std::chrono::milliseconds answer_timeout = std::chrono::milliseconds(0);
  // A stream that has had nothing to send for so long sends a comment, lest somebody on the way
  // takes it for dead.
  std::chrono::milliseconds keep_alive_interval = std::chrono::seconds(10);
  size_t max_unsent_tokens = 4096;  // a client that falls further behind loses its answer
  AccessOptions access = {};
  PrefixSharing prefix_sharing = PrefixSharing::kKey;
  std::function<void()> on_stop = {};  // for POST /v1/stop: should have drain() and stop() called
};

// What the server serves once loading is over.
struct ServedModel {
  std::string name = {};
  std::shared_ptr<Engine> engine = {};
  std::shared_ptr<const ChatFormatter> chat = {};
  std::time_t created = std::time(nullptr);  // for /v1/models
};

// Thread-safe. Runs on its own threads; logs requests, never prompts or keys.
class Server {
 public:
  // Listens at once: until set_ready(), /health answers 503 with the progress, and requests 503.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Log log);
  virtual ~Server() = default;  // stops

  virtual uint16_t port() const = 0;  // 0: it listens on a path
  // "http://127.0.0.1:8080" or "unix:/run/penstock.sock".
  virtual std::string address() const = 0;
  virtual void set_progress(const ProgressUpdate& update) = 0;
  virtual void set_ready(ServedModel model) = 0;

  // Refuses new requests with 503 and waits until the running ones have been answered. False: some
  // had not when `limit` was over, and they still run.
  virtual bool drain(std::chrono::milliseconds limit) = 0;
  // Closes every connection, which aborts what runs. Idempotent; after drain() nobody notices.
  virtual void stop() = 0;
};

}  // namespace penstock
