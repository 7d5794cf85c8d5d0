#include "server/answer.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "engine/output_stream.h"
#include "server/error_response.h"
#include "server/mailbox.h"
#include "server/wakeup.h"

namespace penstock {
namespace {

namespace asio = boost::asio;

// One choice's request, as the engine runs it.
struct Choice {
  explicit Choice(OutputStream output_in) : output(std::move(output_in)) {}

  OutputStream output;
  std::shared_ptr<Mailbox> mailbox = {};
  std::optional<RequestHandle> handle = {};
  std::optional<Result<OutputEnd>> end = {};
};

// Whichever way an answer is destroyed, the engine lets go of its requests and of the connection.
class Answer {
 public:
  static Result<std::shared_ptr<Answer>> begin(HttpStream& http, std::string_view body,
                                               const AnswerRoute& route, ServerState& state);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    for (Choice& choice : choices_) choice.mailbox->close();
  }

  // The client has gone.
  void leave() {
    left_ = true;
    for (Choice& choice : choices_) choice.handle.reset();
    wakeup_->notify();
  }

  // False when not all of it was taken, or it ended with an error.
  asio::awaitable<bool> send(HttpStream& http, const HttpRequest& request, bool keep_alive) {
    if (plan_.stream) co_return co_await send_events(http, request, keep_alive);
    co_return co_await send_whole(http, request, keep_alive);
  }

  std::string summary() const;

 private:
  Answer(std::shared_ptr<const ServedModel> model, ServerState::Place answering, AnswerPlan plan,
         const asio::any_io_executor& strand)
      : model_(std::move(model)),
        answering_(std::move(answering)),
        plan_(std::move(plan)),
        wakeup_(std::make_shared<Wakeup>(strand)) {}

  Result<void> submit(const asio::any_io_executor& strand, size_t max_unsent_tokens);
  asio::awaitable<bool> send_events(HttpStream& http, const HttpRequest& request, bool keep_alive);
  asio::awaitable<bool> send_whole(HttpStream& http, const HttpRequest& request, bool keep_alive);
  // What the writer makes of the events there are; waits until there are any, or nobody is left to
  // read them.
  asio::awaitable<std::string> receive();
  std::string take_events(size_t index);
  bool has_reader() const;
  bool ended() const;
  const Error* error() const;  // of the first choice that failed; null: none did
  Usage usage() const;

  std::shared_ptr<const ServedModel> model_;
  ServerState::Place answering_;
  AnswerPlan plan_;
  std::shared_ptr<Wakeup> wakeup_;
  std::vector<Choice> choices_;
  bool changed_ = false;  // an event was taken since receive() last returned
  bool left_ = false;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

Result<std::shared_ptr<Answer>> Answer::begin(HttpStream& http, std::string_view body,
                                              const AnswerRoute& route, ServerState& state) try {
  auto model = state.model();
  if (model == nullptr) return std::unexpected(still_loading(state.load_state()));
  PENSTOCK_ASSIGN(auto answering, state.begin_answer());
  PENSTOCK_ASSIGN(AnswerPlan plan, route.plan(body, *model));
  std::shared_ptr<Answer> answer(
      new Answer(std::move(model), std::move(answering), std::move(plan), http.strand()));
  if (auto submitted = answer->submit(http.strand(), state.options.max_unsent_tokens); !submitted) {
    Error error = std::move(submitted).error();
    if (error.param == "prompt") error.param = route.prompt_field;
    return std::unexpected(std::move(error));
  }
  return answer;
} catch (const std::exception& error) {
  return fail(ErrorKind::kInternal, "the request could not be prepared: {}", error.what());
}

Result<void> Answer::submit(const asio::any_io_executor& strand, size_t max_unsent_tokens) {
  // Without a stream, nothing waits for the client: the engine's own limits are the bound.
  const size_t bound = plan_.stream ? max_unsent_tokens : std::numeric_limits<size_t>::max();
  for (const GenerationRequest& request : plan_.choices) {
    PENSTOCK_ASSIGN(auto output, OutputStream::create(model_->chat->tokenizer(), request));
    Choice& choice = choices_.emplace_back(std::move(output));
    choice.mailbox = std::make_shared<Mailbox>(
        [strand, wakeup = wakeup_] { asio::post(strand, [wakeup] { wakeup->notify(); }); }, bound);
  }
  for (size_t i = 0; i < choices_.size(); ++i) {
    PENSTOCK_ASSIGN(choices_[i].handle,
                    model_->engine->submit(std::move(plan_.choices[i]), choices_[i].mailbox));
  }
  return {};
}

bool Answer::has_reader() const {
  if (left_) return false;
  for (const Choice& choice : choices_) {
    if (choice.mailbox->overflowed()) return false;
  }
  return true;
}

bool Answer::ended() const {
  for (const Choice& choice : choices_) {
    if (!choice.end) return false;
  }
  return true;
}

const Error* Answer::error() const {
  for (const Choice& choice : choices_) {
    if (choice.end && !*choice.end) return &choice.end->error();
  }
  return nullptr;
}

Usage Answer::usage() const {
  Usage sum;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Usage& usage = choices_[i].output.usage();
    if (i % plan_.n_per_prompt == 0) {
      sum.prompt_tokens += usage.prompt_tokens;
      sum.cached_tokens += usage.cached_tokens;
    }
    sum.completion_tokens += usage.completion_tokens;
  }
  return sum;
}

std::string Answer::take_events(size_t index) {
  Choice& choice = choices_[index];
  std::string written;
  for (const Event& event : choice.mailbox->take()) {
    if (choice.end) break;  // a stop string's; the engine had gone on
    changed_ = true;
    OutputUpdate update = choice.output.push(event);
    if (!update.end || *update.end) written += plan_.writer->push(index, update);
    if (!update.end && plan_.writer->is_satisfied(index)) {
      update.end = OutputEnd{FinishReason::kStop, choice.output.usage()};
    }
    if (update.end) choice.end = std::move(update.end);
  }
  if (choice.end) choice.handle.reset();
  return written;
}

asio::awaitable<std::string> Answer::receive() {
  for (;;) {
    std::string written;
    for (size_t i = 0; i < choices_.size(); ++i) written += take_events(i);
    if (std::exchange(changed_, false) || !has_reader()) co_return written;
    co_await wakeup_->wait();
  }
}

asio::awaitable<bool> Answer::send_events(HttpStream& http, const HttpRequest& request,
                                          bool keep_alive) {
  if (!co_await http.begin_events(request, keep_alive)) co_return false;
  std::string unsent = plan_.writer->begin();
  while (!ended() && error() == nullptr) {
    if (!unsent.empty() && !co_await http.send_events(unsent)) co_return false;
    unsent = co_await receive();
    if (!has_reader()) co_return false;
  }
  const Error* failure = error();
  unsent += failure == nullptr ? plan_.writer->end(usage()) : event(error_body(*failure));
  if (!co_await http.send_events(unsent)) co_return false;
  co_return co_await http.end_events() && failure == nullptr;
}

asio::awaitable<bool> Answer::send_whole(HttpStream& http, const HttpRequest& request,
                                         bool keep_alive) {
  while (!ended() && error() == nullptr) {
    co_await receive();
    if (!has_reader()) co_return false;
  }
  const Error* failure = error();
  HttpResponse response = failure == nullptr ? HttpResponse{.body = plan_.writer->end(usage())}
                                             : error_response(*failure);
  co_return co_await http.write(request, std::move(response), keep_alive);
}

std::string Answer::summary() const {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun_;
  std::string outcome = "the client left";
  if (ended()) outcome = to_string((*choices_.front().end)->reason);
  if (error() != nullptr) outcome = error()->text();
  const Usage sum = usage();
  return fmt::format("{} tokens={}+{} seconds={:.3f}: {}", plan_.head.id, sum.prompt_tokens,
                     sum.completion_tokens, seconds.count(), outcome);
}

}  // namespace

AnswerPlan plan_choices(AnswerHead head, const GenerationFields& fields,
                        std::vector<std::vector<int32_t>> prompts) {
  AnswerPlan plan{.head = std::move(head),
                  .n_per_prompt = static_cast<size_t>(fields.n),
                  .stream = fields.stream};
  const uint64_t seed = fields.seed ? *fields.seed : random_seed();
  for (const std::vector<int32_t>& prompt : prompts) {
    for (size_t i = 0; i < plan.n_per_prompt; ++i) {
      GenerationRequest& choice = plan.choices.emplace_back(fields.generation);
      choice.prompt = prompt;
      choice.sampling.seed = choice_seed(seed, i);
    }
  }
  return plan;
}

Result<void> check_model(std::string_view asked, const ServedModel& model) {
  if (asked.empty() || asked == model.name) return {};
  return std::unexpected(unknown_model(asked, model.name));
}

asio::awaitable<bool> answer(std::shared_ptr<HttpStream> http, const HttpRequest& request,
                             const AnswerRoute& route, ServerState& state) {
  const bool keep_alive = request.keep_alive && !state.draining();
  Result<std::shared_ptr<Answer>> begun = Answer::begin(*http, request.body, route, state);
  if (!begun) {
    HttpResponse response = error_response(begun.error());
    state.log.info("POST {} {}", request.path, response.status);
    const bool sent = co_await http->write(request, std::move(response), keep_alive);
    co_return sent&& keep_alive;
  }
  const std::shared_ptr<Answer> running = *std::move(begun);
  http->watch([weak = std::weak_ptr(running)] {
    if (const auto watched = weak.lock()) watched->leave();
  });
  const bool sent = co_await running->send(*http, request, keep_alive);
  running->leave();
  co_await http->stop_watching();
  state.log.info("POST {} {}", request.path, running->summary());
  co_return sent&& keep_alive;
}

}  // namespace penstock
