"""The table of quotas. Charging takes no lock: processors share a `Quota` through its two atomics.

Quotas of names that clients make up are kept while a connection uses them or they owe. When there
are twice as many as were left by the last look, those that are not needed are dropped: memory is
bounded by the clients that there are, at a cost that does not grow with them. Since one connection
may owe under ever new names, there is a limit, too; new names beyond it share one quota for each
entity that has a rate.

The key of a quota says who shares it: a user, a client id, or one client id of one user. It is the
same for all entities that could give it a rate, of which one counts at a time.
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy
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
    OF_USER = 1                    # bits: who shares a quota
    OF_CLIENT = 2
    USER_AT = 5                    # in a key: [kind of key][user's size, 4][user][client]


# ---- without the GIL ----

cdef void quotas_init(QuotaTable* table, int64_t window_ns) noexcept nogil:
    cdef int kind
    table.window_ns = window_ns
    for kind in range(QUOTA_KINDS):
        table.kinds[kind].sweep_at = SWEEP_MIN


cdef void quotas_set(QuotaTable* table, int kind,
                     unordered_map[string, int64_t]* by_entity) noexcept nogil:
    cdef Rates* rates = &table.kinds[kind]
    table.guard.lock()
    rates.by_entity.swap(by_entity[0])
    rates.precedences = 0
    for entry in rates.by_entity:
        rates.precedences |= 1 << entry.first[0]
    for held in rates.quotas:
        quota_set_rate(held.second.get(), _rate_of_key(rates, held.first))
    for held in rates.crowds:
        quota_set_rate(held.second.get(), _rate(rates, held.first))
    table.guard.unlock()
    table.generation.fetch_add(1)


cdef void quota_set_rate(Quota* quota, int64_t rate) noexcept nogil:
    """What was owed at another rate is forgotten: it was time, and would be the wrong one."""
    if quota.rate.exchange(rate) != rate:
        quota.paid_until_ns.store(0)


cdef int64_t _rate(Rates* rates, const string& entity) noexcept nogil:
    found = rates.by_entity.find(entity)
    return dereference(found).second if found != rates.by_entity.end() else NO_RATE


cdef bint _names_user(int precedence) noexcept nogil:
    return precedence <= USER_ALONE


cdef bint _names_client(int precedence) noexcept nogil:
    return precedence in (USER_AND_CLIENT, ANY_USER_AND_CLIENT, CLIENT_ALONE)


cdef int _shared_by(int precedence) noexcept nogil:
    if precedence >= CLIENT_ALONE:
        return OF_CLIENT
    return OF_USER if precedence in (USER_ALONE, ANY_USER_ALONE) else OF_USER | OF_CLIENT


cdef string _key(int first, bint with_user, const string& user, bint with_client,
                 const string& client) noexcept nogil:
    cdef string key
    cdef uint32_t size = <uint32_t>user.size() if with_user else 0
    key.push_back(<char>first)
    key.append(<const char*>&size, sizeof(size))
    if with_user:
        key.append(user)
    if with_client:
        key.append(client)
    return key


cdef string quota_entity(int precedence, const string& user, const string& client) noexcept nogil:
    return _key(precedence, _names_user(precedence), user, _names_client(precedence), client)


cdef int _precedence(Rates* rates, const string& user, const string& client,
                     int shared_by) noexcept nogil:
    """Of the entity that counts, among those whose quota is shared by these; 0: by whomever. -1:
    none does."""
    cdef int precedence
    for precedence in range(PRECEDENCES):
        if not rates.precedences & (1 << precedence) or (
                shared_by != 0 and _shared_by(precedence) != shared_by):
            continue
        if rates.by_entity.count(quota_entity(precedence, user, client)) > 0:
            return precedence
    return -1


cdef int64_t _rate_of_key(Rates* rates, const string& key) noexcept nogil:
    cdef uint32_t size
    cdef string user, client
    cdef int precedence
    memcpy(&size, key.data() + 1, sizeof(size))
    user = key.substr(USER_AT, size)
    client = key.substr(USER_AT + size)
    precedence = _precedence(rates, user, client, key[0])
    return NO_RATE if precedence < 0 else _rate(rates, quota_entity(precedence, user, client))


cdef void quotas_use(QuotaTable* table, const string& principal, Piece client_id,
                     ClientQuotas* client) noexcept nogil:
    cdef int64_t generation = table.generation.load(), now
    cdef string name, user
    if client_id.size > 0:
        name.assign(<const char*>client_id.data, min(client_id.size, <int64_t>NAME_MAX))
    if client.generation == generation and client.client_id == name:
        return
    now = monotonic_ns()
    user = principal.substr(principal.find(b":") + 1, NAME_MAX)
    client.client_id = name
    client.generation = generation
    client.produce = quota_find(table, QUOTA_PRODUCE, user, name, now)
    client.fetch = quota_find(table, QUOTA_FETCH, user, name, now)


cdef QuotaRef quota_find(QuotaTable* table, int kind, const string& user, const string& client,
                         int64_t now_ns) noexcept nogil:
    cdef Rates* rates = &table.kinds[kind]
    cdef QuotaRef none
    cdef int precedence, shared_by
    cdef ScopeLock lock
    cdef string key
    lock.hold(table.guard)
    precedence = _precedence(rates, user, client, 0)
    if precedence < 0:
        return none
    shared_by = _shared_by(precedence)
    key = _key(shared_by, shared_by & OF_USER, user, shared_by & OF_CLIENT, client)
    entry = rates.quotas.find(key)
    if entry != rates.quotas.end():
        return dereference(entry).second
    if not _has_room(rates, now_ns) and not _is_named(precedence):
        return _put(rates, &rates.crowds, quota_entity(precedence, user, client), precedence, user,
                    client)
    return _put(rates, &rates.quotas, key, precedence, user, client)


cdef bint _is_named(int precedence) noexcept nogil:
    """All who could share it are named by rules: there are no more of them than rules."""
    return precedence in (USER_AND_CLIENT, USER_ALONE, CLIENT_ALONE)


cdef QuotaRef _put(Rates* rates, unordered_map[string, QuotaRef]* quotas, const string& key,
                   int precedence, const string& user, const string& client) noexcept nogil:
    cdef QuotaRef quota = dereference(quotas)[key]
    if quota.get() == NULL:
        quota = make_shared[Quota]()
        quota.get().rate.store(_rate(rates, quota_entity(precedence, user, client)))
        dereference(quotas)[key] = quota
    return quota


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
