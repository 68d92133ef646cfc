// Handing records to Python: when a log is long enough, when a window ends, when an event's time is asked for.
#pragma once

#include <cstdint>

namespace trnscope {

// Lets the runtime take all records. Called with or without the GIL, never with a lock held. Does nothing while this
// thread already flushes, before the runtime is connected and after the interpreter has gone.
void flush();

// Unix time of an approximate clock reading, on the same map as the drained records.
int64_t unix_ns(uint64_t approximate);

}  // namespace trnscope
