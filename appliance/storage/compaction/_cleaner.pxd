"""Compaction of one log. What it keeps and drops is told in `_cleaner.pyx`."""

from libc.stdint cimport int64_t

from appliance.storage._partition_log cimport LogRef

# One round, if the log is due: True. Takes the GIL for compressed batches; raises what stopped it,
# after which the log is as it was, or cleaned up to where it stopped. `keys_max` bounds the map.
cdef bint compact(const LogRef& log, int64_t now_ms, int64_t latest_ms,
                  int64_t keys_max) except? -1
