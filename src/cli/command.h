// What every command is made of: its options go into the parser, and what it does comes out as an
// action.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace CLI {
class App;
}

namespace penstock {

// What the command line asked for. kInvalidArgument is a usage error.
using Action = std::function<Result<void>()>;

// The end of a command's help: what to type, and a word on what it gives.
struct Example {
  std::string_view command;
  std::string_view effect;
};
std::string examples(std::initializer_list<Example> list);

}  // namespace penstock
