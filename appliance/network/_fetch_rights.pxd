"""What of a fetch its client may read, and who is asked where that is not known."""

from libc.stdint cimport int64_t

from appliance.network._connection cimport Connection, Slot

cdef enum:
    TOPIC_AUTHORIZATION_FAILED = 29

# Whether it is known what may be read of each partition by the rules of `generation`, which is not
# 0. If not, the control plane is asked, and tells when it decided.
cdef bint fetch_is_decided(Connection* connection, Slot* slot, int64_t generation) noexcept nogil
# The control plane decided, or nobody waits for it any more.
cdef void fetch_end_question(Connection* connection, Slot* slot) noexcept nogil
