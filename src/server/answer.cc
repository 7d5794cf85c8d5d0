#include "server/answer.h"

#include <algorithm>
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
#include "server/running_answers.h"
#include "server/wakeup.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kComment = ": keep-alive\n\n";

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// One choice's request, as the engine runs it.
struct Choice {
  explicit Choice(OutputStream output_in) : output(std::move(output_in)) {}

  OutputStream output;
  std::shared_ptr<Mailbox> mailbox = {};
  std::optional<RequestHandle> handle = {};
  std::optional<Result<OutputEnd>> end = {};
  std::optional<Clock::time_point> last_token = {};
};

// Whichever way an answer is destroyed, the engine lets go of its requests and of the connection.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  static asio::awaitable<Result<std::shared_ptr<Answer>>> begin(HttpStream& http,
                                                                const HttpRequest& request,
                                                                const AnswerRoute& route,
                                                                ServerState& state);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer();

  // The client has gone.
  void leave() {
    left_ = true;
    let_go();
  }

  // False when not all of it was taken, or it ended with an error.
  asio::awaitable<bool> send(HttpStream& http, const HttpRequest& request, bool keep_alive) {
    if (plan_.stream) co_return co_await send_events(http, request, keep_alive);
    co_return co_await send_whole(http, request, keep_alive);
  }

  AnswerOutcome outcome() const;
  std::string summary() const;

 private:
  Answer(ServerState& state, std::shared_ptr<const ServedModel> model, ServerState::Place answering,
         AnswerPlan plan, const asio::any_io_executor& executor)
      : state_(state),
        model_(std::move(model)),
        answering_(std::move(answering)),
        plan_(std::move(plan)),
        executor_(executor),
        wakeup_(std::make_shared<Wakeup>(executor)) {}

  Result<void> submit();
  void register_progress(std::string_view route);
  void cut_off(Error error);
  void let_go();

  asio::awaitable<bool> send_events(HttpStream& http, const HttpRequest& request, bool keep_alive);
  asio::awaitable<bool> send_whole(HttpStream& http, const HttpRequest& request, bool keep_alive);
  // What the writer makes of the events there are; waits until there are any, nobody is left to
  // read them, the answer's own time is over, or it is `limit`.
  asio::awaitable<std::string> receive(Clock::time_point limit);
  std::string take_events(size_t index);
  void note_event(Choice& choice, const TimedEvent& event);
  bool has_reader() const;
  bool ended() const;
  bool is_complete() const;    // ended as it should: neither by an error nor because it was let go
  const Error* error() const;  // of the first choice that failed; null: none did
  Usage usage() const;

  ServerState& state_;
  std::shared_ptr<const ServedModel> model_;
  ServerState::Place answering_;
  AnswerPlan plan_;
  asio::any_io_executor executor_;
  std::shared_ptr<Wakeup> wakeup_;
  std::vector<Choice> choices_;
  std::shared_ptr<AnswerProgress> progress_ = std::make_shared<AnswerProgress>();
  std::optional<Error> cut_off_;  // by somebody other than engine and client
  bool changed_ = false;          // an event was taken since receive() last returned
  bool left_ = false;
};

Answer::~Answer() {
  state_.answers.remove(progress_->id);
  for (Choice& choice : choices_) choice.mailbox->close();
}

// What of the prompt may be shared is decided by who asks, not by what.
void set_prefix_sharing(AnswerPlan& plan, const HttpRequest& request, PrefixSharing sharing) {
  for (GenerationRequest& choice : plan.choices) {
    choice.use_prefix_cache = sharing != PrefixSharing::kOff;
    if (sharing == PrefixSharing::kKey && request.key) {
      choice.prefix_scope = fmt::format("key {}", *request.key);
    }
  }
}

Result<AnswerPlan> make_plan(const HttpRequest& request, const AnswerRoute& route,
                             const ServedModel& model, PrefixSharing sharing) try {
  PENSTOCK_ASSIGN(AnswerPlan plan, route.plan(request.body, model));
  set_prefix_sharing(plan, request, sharing);
  return plan;
} catch (const std::exception& error) {
  return fail(ErrorKind::kInternal, "the request could not be prepared: {}", error.what());
}

asio::awaitable<Result<std::shared_ptr<Answer>>> Answer::begin(HttpStream& http,
                                                               const HttpRequest& request,
                                                               const AnswerRoute& route,
                                                               ServerState& state) {
  auto model = state.model();
  if (model == nullptr) co_return std::unexpected(still_loading(state.load_state()));
  auto answering = state.begin_answer();
  if (!answering) co_return std::unexpected(std::move(answering).error());
  const auto plan_it = [&] {  // named: g++ 12 destroys such a temporary of a co_await twice
    return make_plan(request, route, *model, state.options.prefix_sharing);
  };
  Result<AnswerPlan> plan = co_await state.request_pool.run(plan_it);
  if (!plan) co_return std::unexpected(std::move(plan).error());

  std::shared_ptr<Answer> answer(new Answer(state, std::move(model), *std::move(answering),
                                            *std::move(plan), http.executor()));
  if (auto submitted = answer->submit(); !submitted) {
    Error error = std::move(submitted).error();
    if (error.param == "prompt") error.param = route.prompt_field;
    co_return std::unexpected(std::move(error));
  }
  answer->register_progress(route.path);
  co_return answer;
}

Result<void> Answer::submit() {
  // Without a stream, nothing waits for the client: the engine's own limits are the bound.
  const size_t bound =
      plan_.stream ? state_.options.max_unsent_tokens : std::numeric_limits<size_t>::max();
  for (const GenerationRequest& request : plan_.choices) {
    PENSTOCK_ASSIGN(auto output, OutputStream::create(model_->chat->tokenizer(), request));
    Choice& choice = choices_.emplace_back(std::move(output));
    choice.mailbox = std::make_shared<Mailbox>(
        [executor = executor_, wakeup = wakeup_] {
          asio::post(executor, [wakeup] { wakeup->notify(); });
        },
        bound);
  }
  for (size_t i = 0; i < choices_.size(); ++i) {
    PENSTOCK_ASSIGN(choices_[i].handle,
                    model_->engine->submit(std::move(plan_.choices[i]), choices_[i].mailbox));
  }
  return {};
}

void Answer::register_progress(std::string_view route) {
  progress_->id = plan_.head.id;
  progress_->route = route;
  progress_->prompt_tokens = usage().prompt_tokens;
  progress_->cancel = [executor = executor_, weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (const auto answer = weak.lock()) {
        answer->cut_off({.kind = ErrorKind::kCancelled, .message = "the request was cancelled"});
      }
    });
  };
  state_.answers.add(progress_);
}

void Answer::cut_off(Error error) {
  if (!cut_off_ && !ended()) cut_off_ = std::move(error);
  let_go();
}

void Answer::let_go() {
  for (Choice& choice : choices_) choice.handle.reset();
  wakeup_->notify();
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

bool Answer::is_complete() const {
  for (const Choice& choice : choices_) {
    if (!choice.end || !*choice.end || (*choice.end)->reason == FinishReason::kAborted) {
      return false;
    }
  }
  return true;
}

const Error* Answer::error() const {
  if (cut_off_) return &*cut_off_;
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

void Answer::note_event(Choice& choice, const TimedEvent& event) {
  changed_ = true;
  if (std::holds_alternative<BeginEvent>(event.event) &&
      progress_->stage.load(std::memory_order_relaxed) == AnswerStage::kWaiting) {
    progress_->stage.store(AnswerStage::kPrefilling, std::memory_order_relaxed);
  }
  if (!std::holds_alternative<TokenEvent>(event.event)) return;
  if (choice.last_token) {
    state_.metrics.observe_next_token(seconds_between(*choice.last_token, event.time));
  } else {
    state_.metrics.observe_first_token(seconds_between(progress_->begun, event.time));
  }
  choice.last_token = event.time;
  progress_->stage.store(AnswerStage::kDecoding, std::memory_order_relaxed);
  progress_->completion_tokens.fetch_add(1, std::memory_order_relaxed);
}

std::string Answer::take_events(size_t index) {
  Choice& choice = choices_[index];
  std::string written;
  for (const TimedEvent& event : choice.mailbox->take()) {
    if (choice.end) break;  // a stop string's; the engine had gone on
    note_event(choice, event);
    OutputUpdate update = choice.output.push(event.event);
    if (!update.end || *update.end) written += plan_.writer->push(index, update);
    if (!update.end && plan_.writer->is_satisfied(index)) {
      update.end = OutputEnd{FinishReason::kStop, choice.output.usage()};
    }
    if (update.end) choice.end = std::move(update.end);
  }
  if (choice.end) choice.handle.reset();
  return written;
}

asio::awaitable<std::string> Answer::receive(Clock::time_point limit) {
  const std::chrono::milliseconds timeout = state_.options.answer_timeout;
  const auto own_limit =
      timeout.count() > 0 ? progress_->begun + timeout : Clock::time_point::max();
  for (;;) {
    // Each mailbox that had been empty has sent a wakeup. Waiting for it, though events may lie
    // ready by now, leaves the thread to the other clients.
    const bool woken = co_await wakeup_->wait_until(std::min(limit, own_limit));
    std::string written;
    for (size_t i = 0; i < choices_.size(); ++i) written += take_events(i);
    if (Clock::now() >= own_limit) {
      cut_off({.kind = ErrorKind::kCancelled,
               .message = fmt::format("the answer took longer than {} s",
                                      seconds_between({}, Clock::time_point(timeout))),
               .hint = "--request-timeout"});
    }
    if (std::exchange(changed_, false) || cut_off_ || !has_reader() || !woken) co_return written;
  }
}

asio::awaitable<bool> Answer::send_events(HttpStream& http, const HttpRequest& request,
                                          bool keep_alive) {
  if (!co_await http.begin_events(request, keep_alive)) co_return false;
  std::string unsent = plan_.writer->begin();
  auto comment_time = Clock::now() + state_.options.keep_alive_interval;
  while (!ended() && error() == nullptr) {
    if (!unsent.empty()) {
      if (!co_await http.send_events(unsent)) co_return false;
      comment_time = Clock::now() + state_.options.keep_alive_interval;
    }
    unsent = co_await receive(comment_time);
    if (!has_reader()) co_return false;
    if (unsent.empty() && Clock::now() >= comment_time) unsent = kComment;
  }
  const Error* failure = error();
  unsent += failure == nullptr ? plan_.writer->end(usage()) : event(error_body(*failure));
  if (!co_await http.send_events(unsent)) co_return false;
  co_return co_await http.end_events() && failure == nullptr;
}

asio::awaitable<bool> Answer::send_whole(HttpStream& http, const HttpRequest& request,
                                         bool keep_alive) {
  while (!ended() && error() == nullptr) {
    co_await receive(Clock::time_point::max());
    if (!has_reader()) co_return false;
  }
  const Error* failure = error();
  HttpResponse response = failure == nullptr ? HttpResponse{.body = plan_.writer->end(usage())}
                                             : error_response(*failure);
  co_return co_await http.write(request, std::move(response), keep_alive);
}

AnswerOutcome Answer::outcome() const {
  if (const Error* failure = error()) {
    return failure->kind == ErrorKind::kCancelled ? AnswerOutcome::kCancelled
                                                  : AnswerOutcome::kFailed;
  }
  return is_complete() ? AnswerOutcome::kCompleted : AnswerOutcome::kDisconnected;
}

std::string Answer::summary() const {
  std::string how = "the client left";
  if (error() != nullptr) {
    how = error()->text();
  } else if (is_complete()) {
    how = to_string((*choices_.front().end)->reason);
  }
  const Usage sum = usage();
  return fmt::format("{} tokens={}+{} seconds={:.3f}: {}", plan_.head.id, sum.prompt_tokens,
                     sum.completion_tokens, seconds_between(progress_->begun, Clock::now()), how);
}

}  // namespace

AnswerPlan plan_choices(AnswerHead head, const GenerationFields& fields,
                        const std::vector<std::vector<int32_t>>& prompts) {
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
  Result<std::shared_ptr<Answer>> begun = co_await Answer::begin(*http, request, route, state);
  if (!begun) {
    HttpResponse response = error_response(begun.error());
    state.metrics.count_answer(
        route.path, response.status == 500 ? AnswerOutcome::kFailed : AnswerOutcome::kRefused);
    state.log.info("POST {} {}", request.path, response.status);
    const bool sent = co_await http->write(request, std::move(response), keep_alive);
    co_return sent&& keep_alive;
  }
  const std::shared_ptr<Answer> running = *std::move(begun);
  http->watch([weak = std::weak_ptr(running)] {
    if (const auto watched = weak.lock()) watched->leave();
  });
  const bool sent = co_await running->send(*http, request, keep_alive);
  const AnswerOutcome outcome = running->outcome();
  running->leave();
  co_await http->stop_watching();
  state.metrics.count_answer(route.path, outcome);
  state.log.info("POST {} {}", request.path, running->summary());
  co_return sent&& keep_alive;
}

}  // namespace penstock
