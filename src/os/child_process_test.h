// Runs part of a test in a process of its own, for what a process cannot take back: lowered limits,
// dropped rights, filtered system calls.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace penstock {

// What `body` returned in a child of this process, or how the child ended before it could.
inline std::string said_by_child(const std::function<std::string()>& body) {
  std::array<int, 2> pipe = {};
  if (::pipe(pipe.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = body();
    const bool written =
        ::write(pipe[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);  // without this process's own clean-up
  }
  ::close(pipe[1]);
  std::string said;
  std::array<char, 4096> buffer = {};
  for (ssize_t n = 0; (n = ::read(pipe[0], buffer.data(), buffer.size())) > 0;) {
    said.append(buffer.data(), static_cast<size_t>(n));
  }
  ::close(pipe[0]);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    said += " [the child ended with status " + std::to_string(status) + "]";
  }
  return said;
}

}  // namespace penstock
