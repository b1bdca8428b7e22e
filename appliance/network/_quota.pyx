"""The table of quotas. Charging takes no lock: processors share a `Quota` through its two atomics.

Quotas of names that clients make up are kept while a connection uses them or they owe. When there
are twice as many as were left by the last look, those that are not needed are dropped: memory is
bounded by the clients that there are, at a cost that does not grow with them. Since one connection
may owe under ever new names, there is a limit, too; new names beyond it share one quota.
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport ScopeLock, monotonic_ns

cdef enum:
    SWEEP_MIN = 1024
    NAMES_MAX = 20000              # twice as many as there are connections, 1 KiB of name each
    NAME_MAX = 1025                # no name of a quota is longer (`kept_per_address.py`)
    DEBT_S_MAX = 3600              # a rate so small that more is owed is somebody's mistake
    SECOND_NS = 1000000000
    AMOUNT_MAX = 2147483647        # as many bytes as a request can ask for


# ---- without the GIL ----

cdef void quotas_init(QuotaTable* table, int64_t window_ns) noexcept nogil:
    cdef int kind
    table.window_ns = window_ns
    for kind in range(QUOTA_KINDS):
        table.kinds[kind].sweep_at = SWEEP_MIN
        table.kinds[kind].of_user = make_shared[Quota]()
        table.kinds[kind].of_crowd = make_shared[Quota]()


cdef void quotas_set(QuotaTable* table, int kind, unordered_map[string, int64_t]* named,
                     int64_t others, int64_t of_user) noexcept nogil:
    cdef Rates* rates = &table.kinds[kind]
    table.guard.lock()
    rates.named.swap(named[0])
    rates.others = others
    _set_rate(rates.of_user.get(), of_user)
    _set_rate(rates.of_crowd.get(), max(others, <int64_t>NO_RATE))
    for entry in rates.quotas:
        _set_rate(entry.second.get(), max(_rate(rates, entry.first), <int64_t>NO_RATE))
    table.guard.unlock()
    table.generation.fetch_add(1)


cdef void _set_rate(Quota* quota, int64_t rate) noexcept nogil:
    """What was owed at another rate is forgotten: it was time, and would be the wrong one."""
    if quota.rate.exchange(rate) != rate:
        quota.paid_until_ns.store(0)


cdef int64_t _rate(Rates* rates, const string& name) noexcept nogil:
    entry = rates.named.find(name)
    return dereference(entry).second if entry != rates.named.end() else rates.others


cdef void quotas_use(QuotaTable* table, Piece client_id, ClientQuotas* client) noexcept nogil:
    cdef int64_t generation = table.generation.load(), now
    cdef string name
    if client_id.size > 0:
        name.assign(<const char*>client_id.data, min(client_id.size, <int64_t>NAME_MAX))
    if client.generation == generation and client.client_id == name:
        return
    now = monotonic_ns()
    client.client_id = name
    client.generation = generation
    client.produce = quota_find(table, QUOTA_PRODUCE, name, now)
    client.fetch = quota_find(table, QUOTA_FETCH, name, now)


cdef QuotaRef quota_find(QuotaTable* table, int kind, const string& name,
                         int64_t now_ns) noexcept nogil:
    cdef Rates* rates = &table.kinds[kind]
    cdef QuotaRef fresh
    cdef int64_t rate
    cdef ScopeLock lock
    lock.hold(table.guard)
    rate = _rate(rates, name)
    if rate == OF_USER:
        return rates.of_user
    entry = rates.quotas.find(name)
    if entry != rates.quotas.end():
        return dereference(entry).second
    if not _has_room(rates, now_ns) and rates.named.count(name) == 0:
        return rates.of_crowd
    fresh = make_shared[Quota]()
    fresh.get().rate.store(rate)
    rates.quotas[name] = fresh
    return fresh


cdef bint _has_room(Rates* rates, int64_t now_ns) noexcept nogil:
    """Where all names are in use or owe a look at them finds nothing: one in a second is enough."""
    cdef size_t count = rates.quotas.size()
    if count + 1 >= rates.sweep_at or (
            count >= NAMES_MAX and now_ns - rates.swept_ns >= SECOND_NS):
        _sweep(rates, now_ns)
        rates.swept_ns = now_ns
    return rates.quotas.size() < NAMES_MAX


cdef void _sweep(Rates* rates, int64_t now_ns) noexcept nogil:
    cdef vector[string] idle
    cdef Quota* quota
    cdef size_t i
    for entry in rates.quotas:
        quota = entry.second.get()
        if entry.second.use_count() == 2 and quota.paid_until_ns.load() <= now_ns:
            idle.push_back(entry.first)  # known to the table, and to `entry`, which is a copy
    for i in range(idle.size()):
        rates.quotas.erase(idle[i])
    rates.sweep_at = max(<size_t>SWEEP_MIN, 2 * rates.quotas.size() + 1)


cdef int64_t quotas_count(QuotaTable* table) noexcept nogil:
    cdef int64_t count = 0
    cdef int kind
    cdef ScopeLock lock
    lock.hold(table.guard)
    for kind in range(QUOTA_KINDS):
        count += table.kinds[kind].quotas.size()
    return count


cdef int64_t quota_charge(Quota* quota, int64_t amount, int64_t now_ns,
                          int64_t window_ns) noexcept nogil:
    cdef int64_t rate = quota.rate.load(), most = <int64_t>DEBT_S_MAX * SECOND_NS, before, after
    cdef double cost
    if rate <= NO_RATE:
        return 0
    cost = min(<double>amount * SECOND_NS / <double>rate, <double>most)
    before = quota.paid_until_ns.load()
    while True:
        after = min(max(before, now_ns) + <int64_t>cost, now_ns + most)
        if quota.paid_until_ns.compare_exchange_weak(before, after):
            return max(after - now_ns - window_ns, <int64_t>0)


cdef int64_t quota_delay(Quota* quota, int64_t now_ns, int64_t window_ns) noexcept nogil:
    if quota.rate.load() <= NO_RATE:
        return 0
    return max(quota.paid_until_ns.load() - now_ns - window_ns, <int64_t>0)


cdef int64_t quota_window(Quota* quota, int64_t window_ns) noexcept nogil:
    cdef int64_t rate = quota.rate.load()
    if rate <= NO_RATE:
        return AMOUNT_MAX
    return <int64_t>min(max(<double>rate * window_ns / SECOND_NS, 1.0), <double>AMOUNT_MAX)
