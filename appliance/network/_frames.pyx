"""Cuts frames out of the stream that a client sends, and hands each on as a request.

A connection is read only while its answers are taken: too many requests in flight or too many bytes
of answers, and epoll is told to be silent about what it sends. A frame that does not come in one
read is collected in memory of its own, which grows with what came, not with what the length field
claims; what it claims is checked and reserved before (`_request_size.pyx`).
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport load_i32
from appliance.native._native cimport EAGAIN, EINTR, RawBytes, errno
from appliance.native._socket cimport iovec, readv
from appliance.network._connection cimport (
    NOT_LOGGED_IN, TURN_BYTES, Connection, connection_has_room, connection_set_interest,
)
from appliance.network._connection_life cimport connection_close
from appliance.network._dispatch cimport dispatch
from appliance.network._processor cimport (
    Processor, processor_find, processor_list, processor_spare,
)
from appliance.network._request_size cimport (
    UNRESERVED_MAX, request_admit, request_is_whole, request_may_go_on, request_size_min,
)
from appliance.network._tls cimport tls_read
from appliance.storage._partition_waits cimport inboxes_keep


cdef enum:
    HEAD_BYTES = 4096              # read behind a large frame, of what is likely another


# ---- without the GIL ----

cdef void frames_read(Processor* processor, Connection* connection) noexcept nogil:
    cdef iovec[2] parts
    cdef size_t used = connection.partial.size(), room = 0
    cdef int64_t got
    cdef int count = 0
    if (not connection_has_room(connection)
            or used >= 4 and <int64_t>used >= connection.frame_size):
        # What was held back is run (`frames_resume`) before more is read.
        connection_set_interest(connection, processor.epoll_fd, processor.now_ns)
        return
    if used > 0:
        room = _room(connection) - used
        parts[count].iov_base = connection.partial.data() + used
        parts[count].iov_len = min(room, <size_t>TURN_BYTES)
        count += 1
    # What follows a collected frame may come along, but only once it is known where that one ends.
    if used == 0 or connection.frame_size > 0 and room <= <size_t>TURN_BYTES:
        parts[count].iov_base = processor.scratch.data()
        # The beginning of a large frame is copied once more, so let it be short.
        # Nor is much kept for one that has not logged in.
        parts[count].iov_len = processor.scratch.size()
        if connection.is_bulky or connection.good_until_ns == NOT_LOGGED_IN:
            parts[count].iov_len = HEAD_BYTES
        count += 1
    if connection.tls == NULL:
        got = readv(connection.fd, parts, count)
    else:
        got = tls_read(connection.tls, parts, count)
    if got <= 0:
        connection.partial.resize(used)
        if got == 0 or errno not in (EAGAIN, EINTR):
            connection_close(processor, connection)
        return
    if got > UNRESERVED_MAX:
        inboxes_keep(NULL)  # its owner and this thread have enough to do side by side
    connection.active_ns = processor.now_ns
    processor.plane.counters.bytes_in.fetch_add(got)
    connection.bytes_in += got
    if connection.tls != NULL and connection.tls.has_more:
        processor_list(processor, connection)  # it is read again when this turn sends
    if used > 0:
        connection.partial.resize(used + min(got, <int64_t>parts[0].iov_len))
        got -= min(got, <int64_t>parts[0].iov_len)
        if not _run_partial(processor, connection):
            return
    _run_frames(processor, connection, processor.scratch.data(), got)


cdef size_t _room(Connection* connection) noexcept nogil:
    """Room for the whole frame, once its length is known. Memory that nothing was written to is not
    real yet, so that one who promises much and sends little holds little."""
    connection.partial.resize(max(<size_t>4, <size_t>connection.frame_size))
    return connection.partial.size()


cdef bint _run_partial(Processor* processor, Connection* connection) noexcept nogil:
    """Runs the collected frame once it is whole; False when the connection is gone."""
    cdef RawBytes frame
    cdef bint is_open
    if connection.frame_size == 0:
        if connection.partial.size() < 4:
            return True
        if not request_admit(processor, connection, connection.partial.data()):
            return False
    if <int64_t>connection.partial.size() < connection.frame_size:
        return True
    frame.swap(connection.partial)
    request_is_whole(connection)
    connection.is_bulky = frame.size() > SCRATCH_BYTES
    is_open = dispatch(processor, connection, frame.data() + 4, frame.size() - 4, &frame)
    processor_spare(processor, &frame)
    return is_open


cdef void _run_frames(Processor* processor, Connection* connection, uint8_t* data,
                      int64_t size) noexcept nogil:
    """Whole frames are run where they stand; what is left is kept for the next read."""
    cdef int64_t frame
    while size >= 4 and connection_has_room(connection) and not connection.is_starved:
        frame = load_i32(data) + <int64_t>4
        if frame - 4 < request_size_min(connection) or frame > size:
            break
        connection.is_bulky = False
        if not dispatch(processor, connection, data + 4, frame - 4, NULL):
            return
        data += frame
        size -= frame
    if size > 0:
        connection.frame_ns = processor.now_ns
        connection.frame_size = 0
        # How much may come depends on the answer of a login, if there is one.
        if size >= 4 and connection.barred == 0 and not request_admit(processor, connection, data):
            return
        if connection.reserved > SCRATCH_BYTES:
            connection.partial.swap(processor.spare)
            connection.partial.reserve(connection.frame_size)
        connection.partial.assign(data, data + size)
    connection_set_interest(connection, processor.epoll_fd, processor.now_ns)


cdef bint frames_are_held(Connection* connection) noexcept nogil:
    """Whether `frames_resume` may find something to run."""
    if not connection_has_room(connection):
        return False
    return _holds_frame(connection) or connection.tls != NULL and connection.tls.has_more


cdef bint _holds_frame(const Connection* connection) noexcept nogil:
    return (connection.partial.size() >= 4
            and <int64_t>connection.partial.size() >= connection.frame_size)


cdef bint frames_resume(Processor* processor, Connection* connection) noexcept nogil:
    if not _run_held(processor, connection):
        return False
    if connection.tls == NULL or not connection.tls.has_more or connection.is_starved:
        return True
    return _read_on(processor, connection)


cdef bint _read_on(Processor* processor, Connection* connection) noexcept nogil:
    """What OpenSSL has taken from the socket, epoll does not tell of."""
    cdef int64_t id = connection.id
    if not connection_has_room(connection):
        return True
    frames_read(processor, connection)
    return processor_find(processor, id) != NULL


cdef bint _run_held(Processor* processor, Connection* connection) noexcept nogil:
    cdef RawBytes held
    if not _holds_frame(connection) or not connection_has_room(connection):
        return True
    cdef int64_t id = connection.id
    held.swap(connection.partial)
    request_is_whole(connection)
    _run_frames(processor, connection, held.data(), held.size())
    return processor_find(processor, id) != NULL


cdef void frames_feed(Processor* processor) noexcept nogil:
    cdef Connection* connection
    cdef vector[int64_t] left
    cdef size_t i
    cdef bint is_over = False
    left.swap(processor.starved)
    for i in range(left.size()):
        connection = processor_find(processor, left[i])
        if connection == NULL or not connection.is_starved:
            continue
        if is_over or not request_may_go_on(connection):
            is_over = True
            processor.starved.push_back(left[i])
            continue
        connection.is_starved = False
        if frames_resume(processor, connection):
            connection_set_interest(connection, processor.epoll_fd, processor.now_ns)
