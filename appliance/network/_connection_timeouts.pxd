"""Connections that are closed because time has passed, or answers have piled up."""

from appliance.network._connection cimport Connection
from appliance.network._processor cimport Processor

# Looks at all connections of the thread, and says when to look again.
cdef void timeouts_sweep(Processor* processor) noexcept nogil
# Answers that nobody takes, beyond its share while all of them are too many.
cdef bint holds_too_much(Connection* connection) noexcept nogil
