"""Connections that are closed because time has passed."""

from appliance.network._processor cimport Processor

# Looks at all connections of the thread, and says when to look again.
cdef void timeouts_sweep(Processor* processor) noexcept nogil
