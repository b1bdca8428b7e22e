"""Decisions about rights, kept until the rules move.

Only the control plane's thread adds decisions; processors look them up. Lock order: the table's
guard, then that of one `Rights`; a look-up takes only the second.

Decisions are dropped where there are more than authorizer.max.decisions, those first that were not
used since the last time, and those of older rules: whoever needs one asks again. Principals and
hosts without a connection are dropped when there are twice as many of them as after the last look.
"""

from cython.operator cimport dereference, postincrement
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport ScopeLock

cdef enum:
    SWEEP_MIN = 1024               # principals and hosts
    KEPT_OF_FOUR = 3               # quarters of the limit that are left by a look


# ---- without the GIL ----

cdef void rights_init(RightsTable* table, int64_t decisions_max) noexcept nogil:
    table.decisions_max = decisions_max
    table.sweep_at = SWEEP_MIN


cdef int rights_of(RightsTable* table, ClientRights* client, const string& host, const string& name,
                   int64_t serial, int right, int64_t generation) noexcept nogil:
    cdef Met* met = &client.met[serial & (MET_MAX - 1)]
    cdef Met own
    if serial == 0:
        met = &own
    elif met.serial == serial and met.generation == generation and met.known & right:
        return VERDICT_ALLOWED if met.allowed & right else VERDICT_DENIED
    if client.shared.get() == NULL:
        client.shared = _find(table, client.principal, host)
    if not _look_up(client.shared.get(), name, generation, met):
        met.serial = 0
        return VERDICT_UNKNOWN
    met.serial = serial
    if not met.known & right:
        return VERDICT_UNKNOWN
    return VERDICT_ALLOWED if met.allowed & right else VERDICT_DENIED


cdef bint _look_up(Rights* rights, const string& name, int64_t generation, Met* met) noexcept nogil:
    cdef Decision* decision
    cdef ScopeLock lock
    lock.hold(rights.guard)
    entry = rights.by_name.find(name)
    if entry == rights.by_name.end():
        return False
    decision = &dereference(entry).second
    if decision.generation != generation:
        return False
    decision.is_used = True
    met.generation = generation
    met.known = decision.known
    met.allowed = decision.allowed
    return True


cdef string rights_id_key(const uint8_t* transactional_id, int64_t size) noexcept nogil:
    cdef string key
    key.push_back(<char>0)
    key.append(<const char*>transactional_id, size)
    return key


cdef string rights_cluster_key() noexcept nogil:
    return rights_id_key(<const uint8_t*>b"kafka-cluster", 13)


cdef bint rights_is_other(const ClientRights* client,
                          const vector[uint8_t]* principal) noexcept nogil:
    if client.shared.get() == NULL:
        return False
    return client.principal.size() != principal.size() or memcmp(
        client.principal.data(), principal.data(), principal.size()) != 0


cdef string _key_of(const string& principal, const string& host) noexcept nogil:
    cdef string key = principal
    key.push_back(<char>0)  # in no host: it is an address
    key.append(host)
    return key


cdef RightsRef _find(RightsTable* table, const string& principal,
                     const string& host) noexcept nogil:
    cdef string key = _key_of(principal, host)
    cdef RightsRef fresh
    cdef ScopeLock lock
    lock.hold(table.guard)
    entry = table.all.find(key)
    if entry != table.all.end():
        return dereference(entry).second
    if table.all.size() + 1 >= table.sweep_at:
        _drop_unused(table)
    fresh = make_shared[Rights]()
    table.all[key] = fresh
    return fresh


cdef void _drop_unused(RightsTable* table) noexcept nogil:
    entry = table.all.begin()
    while entry != table.all.end():
        if dereference(entry).second.use_count() > 1:
            postincrement(entry)
            continue
        table.decisions -= dereference(entry).second.get().by_name.size()
        entry = table.all.erase(entry)
    table.sweep_at = max(<size_t>SWEEP_MIN, 2 * table.all.size() + 1)


cdef void rights_decide(RightsTable* table, const string& principal, const string& host,
                        const string& name, int known, int allowed,
                        int64_t generation) noexcept nogil:
    cdef RightsRef rights
    if generation != table.generation.load():
        return
    rights = _find(table, principal, host)
    table.guard.lock()
    if table.decisions >= table.decisions_max:
        _forget_some(table)
    table.decisions += _put(rights.get(), name, known, allowed, generation)
    table.guard.unlock()


cdef bint _put(Rights* rights, const string& name, int known, int allowed,
               int64_t generation) noexcept nogil:
    """Whether there is one more. What an older generation knew counts for nothing."""
    cdef size_t before
    cdef Decision* decision
    cdef ScopeLock lock
    lock.hold(rights.guard)
    before = rights.by_name.size()
    decision = &rights.by_name[name]
    if rights.by_name.size() > before or decision.generation != generation:
        decision.known = decision.allowed = 0
    decision.generation = generation
    decision.allowed = (decision.allowed & ~known) | (allowed & known)
    decision.known |= known
    decision.is_used = True  # soon: somebody asked
    return rights.by_name.size() > before


cdef void _forget_some(RightsTable* table) noexcept nogil:
    """In two rounds at most: the first takes from all that they were used."""
    cdef int64_t wanted = table.decisions_max // 4 * KEPT_OF_FOUR
    cdef int64_t generation = table.generation.load()
    cdef int rounds = 2
    while table.decisions > wanted and rounds > 0:
        rounds -= 1
        for entry in table.all:
            if table.decisions > wanted:
                table.decisions -= _forget(entry.second.get(), generation,
                                           table.decisions - wanted)


cdef int64_t _forget(Rights* rights, int64_t generation, int64_t most) noexcept nogil:
    cdef int64_t forgotten = 0
    cdef Decision* decision
    cdef ScopeLock lock
    lock.hold(rights.guard)
    entry = rights.by_name.begin()
    while entry != rights.by_name.end():
        decision = &dereference(entry).second
        if forgotten < most and (not decision.is_used or decision.generation != generation):
            entry = rights.by_name.erase(entry)
            forgotten += 1
            continue
        decision.is_used = False
        postincrement(entry)
    return forgotten


cdef int64_t rights_count(RightsTable* table) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(table.guard)
    return table.decisions
