"""Incremental fetch: a client names its partitions once, then only what changes."""

from libc.stdint cimport int16_t, int32_t, int64_t
from libcpp.vector cimport vector

from appliance.network._connection cimport Connection, FetchTarget
from appliance.protocol._frame cimport Piece

# A partition that the client wants to hear of no more.
cdef struct Forgotten:
    Piece key
    int32_t partition

cdef enum SessionUse:
    SESSION_NONE = 0               # a fetch by itself
    SESSION_FULL = 1               # a new session, whose partitions are those of this request
    SESSION_INCREMENTAL = 2

# Which of these the request is; negative: the Kafka error to answer, sign changed.
cdef int session_use(Connection* connection, int version, int32_t id, int32_t epoch) noexcept nogil
cdef void session_begin(Connection* connection, const vector[FetchTarget]* targets,
                        bint is_by_id) noexcept nogil
cdef void session_change(Connection* connection, const vector[FetchTarget]* targets,
                         const vector[Forgotten]* forgotten, bint is_by_id) noexcept nogil
# Takes the logs as they are now: lets go of those that were deleted, takes those that were opened
# again or are served only now. It goes on naming all; no fetch of the session waits.
cdef void session_renew(Connection* connection) noexcept nogil
cdef void session_end(Connection* connection) noexcept nogil
