// AMX's registers: the OS saves their 8 KiB only for processes that ask.
#pragma once

namespace penstock {

// Asks for this process and the threads it will start. False: the OS refuses or does not know them.
bool allow_amx();

}  // namespace penstock
