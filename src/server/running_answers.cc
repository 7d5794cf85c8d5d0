#include "server/running_answers.h"

#include <algorithm>
#include <utility>

namespace penstock {

void RunningAnswers::add(std::shared_ptr<const AnswerProgress> answer) {
  const std::scoped_lock lock(mutex_);
  std::string id = answer->id;
  answers_.emplace(std::move(id), std::move(answer));
}

void RunningAnswers::remove(std::string_view id) {
  const std::scoped_lock lock(mutex_);
  const auto found = answers_.find(id);
  if (found != answers_.end()) answers_.erase(found);
}

std::vector<std::shared_ptr<const AnswerProgress>> RunningAnswers::all() const {
  std::vector<std::shared_ptr<const AnswerProgress>> all;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, answer] : answers_) all.push_back(answer);
  }
  std::ranges::stable_sort(all, {}, [](const auto& answer) { return answer->begun; });
  return all;
}

bool RunningAnswers::cancel(std::string_view id) const {
  std::shared_ptr<const AnswerProgress> answer;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = answers_.find(id);
    if (found == answers_.end()) return false;
    answer = found->second;
  }
  answer->cancel();
  return true;
}

}  // namespace penstock
