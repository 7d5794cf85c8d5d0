#include "server/chat_handler.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/output_stream.h"
#include "server/chat_request.h"
#include "server/chat_response.h"
#include "server/error_response.h"
#include "server/mailbox.h"
#include "server/wakeup.h"

namespace penstock {
namespace {

namespace asio = boost::asio;

uint64_t random_seed() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32) | random();
}

// The engine speaks of the prompt; the client sent messages.
Error about_messages(Error error) {
  if (error.param == "prompt") error.param = "messages";
  return error;
}

// Checks and formats; leaves the request ready for the engine.
Result<ChatRequest> read_request(std::string_view body, const ServedModel& model) {
  PENSTOCK_ASSIGN(ChatRequest request, parse_chat_request(body));
  if (!request.model.empty() && request.model != model.name) {
    return std::unexpected(unknown_model(request.model, model.name));
  }
  auto prompt = model.chat->format(request.conversation, local_now());
  if (!prompt) {
    Error error = std::move(prompt).error();
    error.param = "messages";
    return std::unexpected(std::move(error));
  }
  request.generation.prompt = *std::move(prompt);
  request.generation.sampling.seed = request.seed ? *request.seed : random_seed();
  return request;
}

// A request that the engine runs, as its connection sees it. Whichever way it is destroyed, the
// engine lets go of the request and of the connection.
class Answer {
 public:
  static Result<std::shared_ptr<Answer>> begin(HttpStream& http, std::string_view body,
                                               ServerState& state);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() { mailbox_->close(); }

  // The client has gone.
  void leave() {
    left_ = true;
    handle_.reset();
    wakeup_->notify();
  }

  // False when not all of it was taken, or it ended with an error.
  asio::awaitable<bool> send(HttpStream& http, const HttpRequest& request, bool keep_alive) {
    if (streamed_) co_return co_await send_events(http, request, keep_alive);
    co_return co_await send_whole(http, request, keep_alive);
  }

  std::string summary() const;

 private:
  Answer(std::shared_ptr<const ServedModel> model, ServerState::Place answering,
         const ChatRequest& request, OutputStream output, const asio::any_io_executor& strand,
         size_t max_unsent_tokens);

  asio::awaitable<bool> send_events(HttpStream& http, const HttpRequest& request, bool keep_alive);
  asio::awaitable<bool> send_whole(HttpStream& http, const HttpRequest& request, bool keep_alive);
  // Waits until there is more text, the end, or nobody left to read them.
  asio::awaitable<std::vector<std::string>> receive();
  bool has_reader() const { return !left_ && !mailbox_->overflowed(); }

  std::shared_ptr<const ServedModel> model_;
  ServerState::Place answering_;
  AnswerHead head_;
  bool streamed_;
  bool include_usage_;
  OutputStream output_;
  std::shared_ptr<Wakeup> wakeup_;
  std::shared_ptr<Mailbox> mailbox_;
  std::optional<RequestHandle> handle_;
  std::optional<Result<OutputEnd>> end_;
  bool left_ = false;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

Answer::Answer(std::shared_ptr<const ServedModel> model, ServerState::Place answering,
               const ChatRequest& request, OutputStream output, const asio::any_io_executor& strand,
               size_t max_unsent_tokens)
    : model_(std::move(model)),
      answering_(std::move(answering)),
      head_(make_answer_head(model_->name)),
      streamed_(request.stream),
      include_usage_(request.include_usage),
      output_(std::move(output)),
      wakeup_(std::make_shared<Wakeup>(strand)) {
  // Without a stream, nothing waits for the client: the engine's own limits are the bound.
  const size_t bound = streamed_ ? max_unsent_tokens : std::numeric_limits<size_t>::max();
  mailbox_ = std::make_shared<Mailbox>(
      [strand, wakeup = wakeup_] { asio::post(strand, [wakeup] { wakeup->notify(); }); }, bound);
}

Result<std::shared_ptr<Answer>> Answer::begin(HttpStream& http, std::string_view body,
                                              ServerState& state) try {
  auto model = state.model();
  if (model == nullptr) return std::unexpected(still_loading(state.load_state()));
  PENSTOCK_ASSIGN(auto answering, state.begin_answer());
  PENSTOCK_ASSIGN(ChatRequest request, read_request(body, *model));
  PENSTOCK_ASSIGN(auto output, OutputStream::create(model->chat->tokenizer(), request.generation));
  Engine& engine = *model->engine;
  std::shared_ptr<Answer> answer(new Answer(std::move(model), std::move(answering), request,
                                            std::move(output), http.strand(),
                                            state.options.max_unsent_tokens));
  auto handle = engine.submit(std::move(request.generation), answer->mailbox_);
  if (!handle) return std::unexpected(about_messages(handle.error()));
  answer->handle_ = *std::move(handle);
  return answer;
} catch (const std::exception& error) {
  return fail(ErrorKind::kInternal, "the request could not be prepared: {}", error.what());
}

asio::awaitable<std::vector<std::string>> Answer::receive() {
  std::vector<std::string> pieces;
  for (;;) {
    for (const Event& event : mailbox_->take()) {
      if (end_) break;  // a stop string's; the engine had gone on
      OutputUpdate update = output_.push(event);
      if (!update.text.empty()) pieces.push_back(std::move(update.text));
      if (update.end) end_ = std::move(update.end);
    }
    if (end_) handle_.reset();
    if (!pieces.empty() || end_ || !has_reader()) co_return pieces;
    co_await wakeup_->wait();
  }
}

asio::awaitable<bool> Answer::send_events(HttpStream& http, const HttpRequest& request,
                                          bool keep_alive) {
  const ChatEvents events(head_, include_usage_);
  if (!co_await http.begin_events(request, keep_alive)) co_return false;
  std::string unsent = events.begin();
  while (!end_) {
    if (!co_await http.send_events(unsent)) co_return false;
    unsent.clear();
    const std::vector<std::string> pieces = co_await receive();
    if (!has_reader()) co_return false;
    for (const std::string& piece : pieces) unsent += events.text(piece);
  }
  const Result<OutputEnd>& end = *end_;
  unsent += end ? events.end(*end) : ChatEvents::error(end.error());
  if (!co_await http.send_events(unsent)) co_return false;
  co_return co_await http.end_events() && end.has_value();
}

asio::awaitable<bool> Answer::send_whole(HttpStream& http, const HttpRequest& request,
                                         bool keep_alive) {
  std::string text;
  while (!end_) {
    for (const std::string& piece : co_await receive()) text += piece;
    if (!has_reader()) co_return false;
  }
  const Result<OutputEnd>& end = *end_;
  HttpResponse response =
      end ? HttpResponse{.body = chat_completion(head_, text, *end)} : error_response(end.error());
  co_return co_await http.write(request, std::move(response), keep_alive);
}

std::string Answer::summary() const {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun_;
  std::string outcome = "the client left";
  if (end_ && !*end_) outcome = end_->error().text();
  if (end_ && *end_) outcome = to_string((*end_)->reason);
  return fmt::format("{} tokens={}+{} seconds={:.3f}: {}", head_.id, output_.usage().prompt_tokens,
                     output_.usage().completion_tokens, seconds.count(), outcome);
}

}  // namespace

asio::awaitable<bool> answer_chat(std::shared_ptr<HttpStream> http, const HttpRequest& request,
                                  ServerState& state) {
  const bool keep_alive = request.keep_alive && !state.draining();
  Result<std::shared_ptr<Answer>> begun = Answer::begin(*http, request.body, state);
  if (!begun) {
    HttpResponse response = error_response(begun.error());
    state.log.info("POST {} {}", request.path, response.status);
    const bool sent = co_await http->write(request, std::move(response), keep_alive);
    co_return sent&& keep_alive;
  }
  const std::shared_ptr<Answer> answer = *std::move(begun);
  http->watch([weak = std::weak_ptr(answer)] {
    if (const auto watched = weak.lock()) watched->leave();
  });
  const bool sent = co_await answer->send(*http, request, keep_alive);
  answer->leave();
  co_await http->stop_watching();
  state.log.info("POST {} {}", request.path, answer->summary());
  co_return sent&& keep_alive;
}

}  // namespace penstock
