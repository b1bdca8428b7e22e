"""A processor's timers: for fetches that wait, and for connections that a quota muted."""

from libc.stdint cimport int64_t

from appliance.network._connection cimport Connection
from appliance.network._processor cimport Processor

# The fetch in this slot is looked at again when its deadline has come.
cdef void timer_set(Processor* processor, Connection* connection, int64_t slot) noexcept nogil
# The connection is read again at `mute_until_ns`.
cdef void timer_mute(Processor* processor, Connection* connection) noexcept nogil
# When the next one is due.
cdef int64_t timers_next(Processor* processor) noexcept nogil
cdef void timers_run(Processor* processor) noexcept nogil
