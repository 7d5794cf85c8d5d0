// What `ctl` shows of a server's answers. A field that is missing, or of another type, shows as
// "?": the server may be of another version.
#pragma once

#include <string>

#include "base/json.h"

namespace penstock {

std::string view_status(const Json& answer, int columns);
std::string view_requests(const Json& answer, int columns);
std::string view_cancel(const Json& answer, int columns);
std::string view_drop_cache(const Json& answer, int columns);
std::string view_stop(const Json& answer, int columns);

}  // namespace penstock
