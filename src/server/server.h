// The HTTP server: OpenAI's chat completions over one engine, from before the model is loaded until
// the last answer is sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "engine/chat.h"
#include "engine/engine.h"

namespace penstock {

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address
  uint16_t port = 0;               // 0: a free one
  int n_threads = 2;               // for sockets, templates, tokenising; the engine has its own
  size_t max_connections = 512;
  size_t max_header_bytes = 16 * 1024;
  size_t max_body_bytes = 8 * 1024 * 1024;
  std::chrono::milliseconds request_timeout = std::chrono::seconds(30);  // header and body
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(75);     // between requests
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);  // no byte taken for so long
  size_t max_unsent_tokens = 4096;  // a client that falls further behind loses its answer
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

  virtual uint16_t port() const = 0;
  virtual void set_progress(const ProgressUpdate& update) = 0;
  virtual void set_ready(ServedModel model) = 0;

  // Refuses new requests with 503 and waits until the running ones have been answered. False: some
  // had not when `limit` was over, and they still run.
  virtual bool drain(std::chrono::milliseconds limit) = 0;
  // Closes every connection, which aborts what runs. Idempotent; after drain() nobody notices.
  virtual void stop() = 0;
};

}  // namespace penstock
