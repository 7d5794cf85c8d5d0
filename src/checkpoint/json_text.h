// JSON values from outside, as error messages show them.
#pragma once

#include <string>

#include "base/json.h"

namespace penstock {

// The value as JSON in ASCII, cut after some 60 characters: what is wrong may also be huge.
std::string brief(const Json& value);

}  // namespace penstock
