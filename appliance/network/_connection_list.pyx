"""The list of a processor's connections: a mail asks for it, the processor's thread makes it."""

from libc.stdint cimport int64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport ScopeLock, wait_until
from appliance.network._connection cimport Connection
from appliance.storage._partition_waits cimport MAIL_VIEW, Inbox, Mail, inbox_put


# ---- without the GIL ----

cdef bint view_ask(View* view, Inbox* inbox, int64_t deadline_ns,
                   vector[ConnectionFacts]* into) noexcept nogil:
    cdef Mail mail
    cdef int64_t mine
    cdef ScopeLock lock
    mail.kind = MAIL_VIEW
    mail.connection = 0
    mail.slot = -1
    lock.hold(view.guard)
    view.asked += 1
    mine = view.asked
    lock.release()
    inbox_put(inbox, &mail)
    lock.hold(view.guard)
    while view.answered < mine and wait_until(view.shown, view.guard, deadline_ns):
        pass
    if view.answered < mine:
        return False
    into.insert(into.end(), view.rows.begin(), view.rows.end())
    return True


cdef void view_show(View* view, unordered_map[int64_t, Connection*]* connections,
                    int64_t now_ns) noexcept nogil:
    cdef vector[ConnectionFacts] rows
    cdef size_t i = 0
    cdef ScopeLock lock
    rows.resize(connections.size())
    for entry in connections[0]:
        _fill_facts(entry.second, now_ns, &rows[i])
        i += 1
    lock.hold(view.guard)
    view.rows.swap(rows)
    view.answered = view.asked
    view.shown.notify_all()


cdef void _fill_facts(Connection* connection, int64_t now_ns,
                      ConnectionFacts* facts) noexcept nogil:
    facts.id = connection.id
    facts.peer = connection.peer
    facts.client_id = connection.client_id
    facts.principal = connection.rights.principal
    facts.age_ns = now_ns - connection.since_ns
    facts.idle_ns = now_ns - connection.active_ns
    facts.requests = connection.requests
    facts.in_flight = connection.slots.size()
    facts.bytes_in = connection.bytes_in
    facts.bytes_out = connection.bytes_out
    facts.held_bytes = connection.held_bytes
    facts.mute_ns = max(<int64_t>0, connection.mute_until_ns - now_ns)
