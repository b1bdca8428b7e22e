"""The limits of request sizes: socket.request.max.bytes of one, queued.max.request.bytes of all.

A length field is believed within the first limit; what it claims is reserved against the second
before the frame is collected. Requests that the control plane has not answered yet count there too:
beyond it, who sends more of them is not read. Who sends little does not wait for the memory that
others take. control.request.max.bytes is compared in `_dispatch.pyx`, once it is known who answers.
"""

from libc.stdint cimport int64_t, uint8_t

from appliance.native._bytes cimport load_i32
from appliance.network._connection cimport NOT_LOGGED_IN, Connection, slot_at
from appliance.network._connection_life cimport connection_refuse
from appliance.network._control_plane_inbox cimport (
    CLOSURE_FRAME_SIZE, CLOSURE_LOGIN_SIZE, Plane,
)
from appliance.network._processor cimport Processor


# ---- without the GIL ----

cdef bint request_admit(Processor* processor, Connection* connection,
                        const uint8_t* data) noexcept nogil:
    cdef int64_t size = load_i32(data), most = processor.plane.limits.request_bytes
    if (connection.good_until_ns == NOT_LOGGED_IN
            and size > processor.plane.limits.login_bytes):
        connection_refuse(processor, connection, CLOSURE_LOGIN_SIZE, size,
                          processor.plane.limits.login_bytes)
        return False
    if size < request_size_min(connection) or size > most:
        connection_refuse(processor, connection, CLOSURE_FRAME_SIZE, size, most)
        return False
    connection.frame_size = size + 4
    if connection.mute_until_ns == 0:
        request_want_memory(processor, connection)
    return True


cdef void request_want_memory(Processor* processor, Connection* connection) noexcept nogil:
    if connection.frame_size <= UNRESERVED_MAX or connection.reserved > 0:
        return
    if not _reserve(connection):
        _starve(processor, connection)


cdef bint _reserve(Connection* connection) noexcept nogil:
    """Memory for the frame that has begun. One is always let in, however large."""
    cdef Plane* plane = connection.plane
    cdef int64_t before = plane.queued_bytes.fetch_add(connection.frame_size)
    if before > 0 and before + connection.frame_size > plane.limits.queued_bytes:
        plane.queued_bytes.fetch_add(-connection.frame_size)
        return False
    connection.reserved = connection.frame_size
    return True


cdef void _starve(Processor* processor, Connection* connection) noexcept nogil:
    """It is read when others are done: nothing of it is lost, the socket holds it back."""
    if not connection.is_starved:
        connection.is_starved = True
        processor.starved.push_back(connection.id)


cdef void request_is_whole(Connection* connection) noexcept nogil:
    connection.plane.queued_bytes.fetch_add(-connection.reserved)
    connection.reserved = connection.frame_size = connection.frame_ns = 0
    connection.is_starved = False


cdef void request_is_passed_on(Processor* processor, Connection* connection, int64_t slot,
                               int64_t size) noexcept nogil:
    slot_at(connection, slot).passed_bytes = size
    connection.passed += 1
    connection.passed_bytes += size
    if not _may_pass_on(connection):
        _starve(processor, connection)


cdef bint _may_pass_on(Connection* connection) noexcept nogil:
    return (connection.passed_bytes <= UNRESERVED_MAX
            or connection.plane.queued_bytes.load() <= connection.plane.limits.queued_bytes)


cdef bint request_may_go_on(Connection* connection) noexcept nogil:
    if connection.frame_size > UNRESERVED_MAX and connection.reserved == 0:
        return _reserve(connection)
    return _may_pass_on(connection)
