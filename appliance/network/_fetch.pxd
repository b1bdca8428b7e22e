"""Fetch, from frame to segment files and back."""

from libc.stdint cimport int64_t

from appliance.native._bytes cimport Cursor
from appliance.network._connection cimport Connection

cdef enum:
    FETCH_KEY = 1
    FETCH_MIN = 4
    FETCH_MAX = 18
    FETCH_FLEXIBLE = 12            # the first version, as is the next
    FETCH_BY_ID = 13               # that names a topic by its id
    FETCH_REPLICA_STATE = 15       # that has a follower's id behind everything else

# A code of `Handled`.
cdef int fetch(Connection* connection, int64_t slot_number, int version, int correlation_id,
               Cursor* cursor) noexcept nogil
