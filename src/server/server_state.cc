#include "server/server_state.h"

#include <boost/asio/ip/address.hpp>
#include <utility>

namespace penstock {
namespace {

bool on_loopback(const ServerOptions& options) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(options.host, ec);
  return options.unix_socket.empty() && !ec && address.is_loopback();
}

}  // namespace

ServerState::ServerState(ServerOptions options_in, Log log_in)
    : options(std::move(options_in)),
      log(std::move(log_in)),
      access(options.access, on_loopback(options)) {}

ServerState::Place::~Place() {
  if (state_ == nullptr) return;
  {
    const std::scoped_lock lock(state_->mutex_);
    --*count_;
  }
  state_->place_free_.notify_all();
}

void ServerState::set_progress(const ProgressUpdate& update) {
  const std::scoped_lock lock(mutex_);
  load_state_.stage = update.stage;
  load_state_.fraction =
      update.total > 0 ? static_cast<double>(update.done) / static_cast<double>(update.total) : 0.0;
}

void ServerState::set_ready(ServedModel model) {
  auto shared = std::make_shared<const ServedModel>(std::move(model));
  const std::scoped_lock lock(mutex_);
  model_ = std::move(shared);
}

std::shared_ptr<const ServedModel> ServerState::model() const {
  const std::scoped_lock lock(mutex_);
  return model_;
}

LoadState ServerState::load_state() const {
  const std::scoped_lock lock(mutex_);
  return load_state_;
}

Result<ServerState::Place> ServerState::begin_connection() {
  const std::scoped_lock lock(mutex_);
  if (n_connections_ >= options.max_connections) {
    return fail(ErrorKind::kExhausted, "{} connections are open, of {} that may", n_connections_,
                options.max_connections);
  }
  ++n_connections_;
  return Place(this, &n_connections_);
}

Result<ServerState::Place> ServerState::begin_answer() {
  const std::scoped_lock lock(mutex_);
  if (draining_) {
    return fail(ErrorKind::kUnavailable, "the server is shutting down and takes no new requests");
  }
  ++n_answers_;
  return Place(this, &n_answers_);
}

bool ServerState::draining() const {
  const std::scoped_lock lock(mutex_);
  return draining_;
}

size_t ServerState::n_connections() const {
  const std::scoped_lock lock(mutex_);
  return n_connections_;
}

bool ServerState::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return place_free_.wait_for(lock, limit, [&] { return n_answers_ == 0; });
}

}  // namespace penstock
