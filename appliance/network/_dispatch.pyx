"""Decides who answers a request. Produce, Fetch and ListOffsets are tried on this thread, in the
versions that their contracts name. All others, and what those three do not answer, go to the
control plane as they came (`_control_plane_inbox.pyx`). What is no request at all ends its
connection.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from appliance.native._bytes cimport Cursor
from appliance.native._histogram cimport traffic_row
from appliance.native._native cimport RawBytes
from appliance.network._connection cimport Connection, Slot, slot_new
from appliance.network._connection_life cimport connection_refuse
from appliance.network._control_plane_inbox cimport (
    CLOSURE_CONTROL_SIZE, CLOSURE_MALFORMED, punt_put,
)
from appliance.network._fetch cimport FETCH_KEY, FETCH_MAX, FETCH_MIN, fetch
from appliance.network._gate cimport SASL_AUTHENTICATE, gate_admits, gate_bar
from appliance.network._list_offsets cimport (
    LIST_OFFSETS_KEY, LIST_OFFSETS_MAX, LIST_OFFSETS_MIN, list_offsets,
)
from appliance.network._processor cimport Processor, processor_list
from appliance.network._produce cimport PRODUCE_KEY, PRODUCE_MAX, PRODUCE_MIN, produce
from appliance.network._quota cimport quotas_use
from appliance.network._request_size cimport request_is_passed_on
from appliance.network._timers cimport timer_set
from appliance.protocol._frame cimport Piece, read_i16, read_i32, read_piece, skip_tags


cdef enum:
    CLIENT_ID_MAX = 255            # of what a client calls itself, as much is shown


# ---- without the GIL ----

cdef bint dispatch(Processor* processor, Connection* connection, uint8_t* data, int64_t size,
                   RawBytes* frame) noexcept nogil:
    cdef Cursor cursor
    cdef Piece client_id
    cdef int key, version, correlation_id, handled = PUNTED
    cdef int64_t number
    cdef Slot* slot
    if connection.good_until_ns != 0 and not gate_admits(processor, connection, data, size):
        return False
    number = slot_new(connection)
    slot = &connection.slots.back()
    slot.begun_ns = processor.now_ns
    if connection.is_raw:
        slot.row = traffic_row(SASL_AUTHENTICATE)
        connection.requests += 1
        _pass_on(processor, connection, number, SASL_AUTHENTICATE, data, size)
        return True
    cursor.at = data
    cursor.end = data + size
    cursor.failed = False
    key = read_i16(&cursor)
    version = read_i16(&cursor)
    correlation_id = read_i32(&cursor)
    client_id = read_piece(&cursor, read_i16(&cursor))
    _note_client(connection, client_id)
    slot.row = traffic_row(key)
    if processor.plane.quotas.generation.load() > 0:
        quotas_use(&processor.plane.quotas, connection.rights.principal, client_id,
                   &connection.quotas)
    if key == PRODUCE_KEY and PRODUCE_MIN <= version <= PRODUCE_MAX:
        skip_tags(&cursor, version >= 9)
        handled = produce(connection, number, version, correlation_id, &cursor, frame)
        if connection.produce.get() != NULL:
            processor.producing.push_back(connection.id)
    elif key == FETCH_KEY and FETCH_MIN <= version <= FETCH_MAX:
        skip_tags(&cursor, version >= 12)
        handled = fetch(connection, number, version, correlation_id, &cursor)
    elif key == LIST_OFFSETS_KEY and LIST_OFFSETS_MIN <= version <= LIST_OFFSETS_MAX:
        skip_tags(&cursor, version >= 6)
        handled = list_offsets(connection, number, version, correlation_id, &cursor)
    if handled == MALFORMED or cursor.failed and handled == PUNTED:
        connection_refuse(processor, connection, CLOSURE_MALFORMED, size, 0, key, version)
        return False
    if handled == PUNTED and key != PRODUCE_KEY and size > processor.plane.limits.control_bytes:
        connection_refuse(processor, connection, CLOSURE_CONTROL_SIZE, size,
                          processor.plane.limits.control_bytes, key, version)
        return False
    if handled == PUNTED:
        _pass_on(processor, connection, number, key, data, size)
    elif key == FETCH_KEY and slot.deadline_ns > 0:
        timer_set(processor, connection, number)
    processor_list(processor, connection)
    return True


cdef void _pass_on(Processor* processor, Connection* connection, int64_t number, int key,
                   const uint8_t* data, int64_t size) noexcept nogil:
    if punt_put(processor.plane, connection.id, number, connection.peer, connection.listener,
                connection.is_raw, data, size):
        processor.must_signal = True
    request_is_passed_on(processor, connection, number, size)
    if connection.good_until_ns != 0:
        gate_bar(connection, number, key)


cdef void _note_client(Connection* connection, Piece client_id) noexcept nogil:
    cdef size_t size = min(max(client_id.size, <int64_t>0), <int64_t>CLIENT_ID_MAX)
    connection.requests += 1
    if connection.client_id.size() != size or size > 0 and memcmp(
            connection.client_id.data(), client_id.data, size) != 0:
        connection.client_id.assign(<const char*>client_id.data, size)
