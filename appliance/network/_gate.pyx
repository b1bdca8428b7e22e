"""The gate before a listener's connections that ask for a login.

    not logged in   ApiVersions, SaslHandshake and SaslAuthenticate, small frames, and a deadline
                    for the whole login. While the control plane has a request of it nothing more
                    is read: what is pipelined behind a SaslAuthenticate comes from whoever that
                    was.
    logged in       everything, for as long as the login is good: for good, or up to a time
                    (KIP-368).
    over            the same three keys: the client may log in again. What else comes ends the
                    connection, as in Kafka. Fetches that wait are answered: they came in time.

The control plane says who is at a connection (MAIL_LOGIN) before it answers, in the same inbox, so
that it is so when the client's next frame is read. Clients before 2018 send tokens as they are
behind a SaslHandshake of version 0, without a header: then it says so (MAIL_RAW), and they are
handed over as they came.
"""

from libc.stdint cimport int64_t, uint8_t

from appliance.native._bytes cimport load_i16
from appliance.network._connection cimport NOT_LOGGED_IN, Connection, Slot, slot_at
from appliance.network._connection_life cimport connection_close, connection_refuse
from appliance.network._control_plane_inbox cimport (
    CLOSURE_LOGIN_KEY, CLOSURE_LOGIN_OTHER, CLOSURE_LOGIN_OVER, CLOSURE_LOGIN_SIZE,
    CLOSURE_LOGIN_TIMEOUT, Plane, closure_put,
)
from appliance.network._processor cimport Processor, processor_list
from appliance.network._rights cimport rights_is_other
from appliance.storage._partition_waits cimport Mail


# ---- without the GIL ----

cdef bint gate_admits(Processor* processor, Connection* connection, const uint8_t* data,
                      int64_t size) noexcept nogil:
    cdef bint is_logged_in = connection.good_until_ns != NOT_LOGGED_IN
    cdef int64_t over_ns = processor.now_ns - connection.good_until_ns
    cdef int64_t wanted = connection.plane.limits.login_bytes
    cdef int key, version
    if is_logged_in and over_ns < 0:
        return True
    if not is_logged_in and size > wanted:
        # It came in one read, before its length was looked at.
        connection_refuse(processor, connection, CLOSURE_LOGIN_SIZE, size, wanted)
        return False
    if connection.is_raw:
        return True
    key, version = load_i16(data), load_i16(data + 2)
    if key == API_VERSIONS or _is_of_login(key):
        return True
    if is_logged_in:
        _close(processor, connection, CLOSURE_LOGIN_OVER, over_ns // 1000000, 0, key, version)
    else:
        _close(processor, connection, CLOSURE_LOGIN_KEY, size, 0, key, version)
    return False


cdef bint _is_of_login(int key) noexcept nogil:
    return key == SASL_HANDSHAKE or key == SASL_AUTHENTICATE


cdef void _close(Processor* processor, Connection* connection, int kind, int64_t got,
                 int64_t wanted, int key, int version) noexcept nogil:
    processor.plane.counters.closed_login.fetch_add(1)
    closure_put(processor.plane, connection.peer, kind, got, wanted, key, version)
    connection_close(processor, connection)


cdef void gate_bar(Connection* connection, int64_t slot_number, int key) noexcept nogil:
    if connection.good_until_ns == NOT_LOGGED_IN or _is_of_login(key):
        slot_at(connection, slot_number).bars = True
        connection.barred += 1


cdef void gate_unbar(Connection* connection, Slot* slot) noexcept nogil:
    connection.barred -= slot.bars
    slot.bars = False


cdef void gate_log_in(Processor* processor, Connection* connection, Mail* mail) noexcept nogil:
    """Also one that is logged in, as it must from time to time where logins end."""
    if rights_is_other(&connection.rights, &mail.bytes):
        # Rights of another principal are in use here, in a fetch session for one.
        _close(processor, connection, CLOSURE_LOGIN_OTHER, 0, 0, -1, -1)
        return
    connection.rights.principal.assign(<const char*>mail.bytes.data(), mail.bytes.size())
    connection.quotas.generation = 0  # of whoever it was before
    connection.good_until_ns = mail.until_ns
    connection.is_raw = connection.is_arriving = False
    processor_list(processor, connection)


cdef void gate_end_after(Connection* connection, Slot* slot) noexcept nogil:
    slot.is_last = True
    connection.barred += 1  # and never less


cdef bint gate_is_late(Connection* connection, int64_t now_ns) noexcept nogil:
    cdef Plane* plane = connection.plane
    if connection.good_until_ns != NOT_LOGGED_IN or now_ns <= connection.login_by_ns:
        return False
    plane.counters.closed_login.fetch_add(1)
    closure_put(plane, connection.peer, CLOSURE_LOGIN_TIMEOUT, connection.requests,
                plane.limits.login_ns // 1000000)
    return True
