// How much processor time a thread has had, as against how much time has gone by.
#pragma once

namespace penstock {

// Of the calling thread, since it began.
double thread_cpu_seconds();

}  // namespace penstock
