"""Quotas: how fast a client may produce, fetch or connect, and since when it was too fast.

A `Quota` is what one entity may use, in the words of a leaky bucket: `paid_until_ns` is when all
that it used will have been earned at its rate. It may be ahead of the clock by a window; what is
beyond that is the time for which the client is not served.
"""

from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map

from appliance.native._native cimport atomic_i64, mutex
from appliance.protocol._frame cimport Piece

cdef enum QuotaKind:
    QUOTA_PRODUCE = 0              # bytes of Produce requests a second, by user and client id
    QUOTA_FETCH = 1                # bytes of records a second, by the same
    QUOTA_CONNECT = 2              # connections a second, by address, in the place of a client id
    QUOTA_KINDS = 3

# Entities that have rates: of those that fit a client the first one counts. Python knows them by
# these numbers.
cdef enum Precedence:
    USER_AND_CLIENT = 0
    USER_AND_ANY_CLIENT = 1
    USER_ALONE = 2
    ANY_USER_AND_CLIENT = 3
    ANY_USER_AND_ANY_CLIENT = 4
    ANY_USER_ALONE = 5
    CLIENT_ALONE = 6
    ANY_CLIENT_ALONE = 7
    PRECEDENCES = 8

cdef enum:
    NO_RATE = 0

cdef cppclass Quota:
    atomic_i64 rate                # a second; NO_RATE: all is allowed
    atomic_i64 paid_until_ns

ctypedef shared_ptr[Quota] QuotaRef

# One kind. Everything is guarded by the table's guard; the quotas themselves are not.
cdef cppclass Rates:
    unordered_map[string, int64_t] by_entity   # by `quota_entity`
    int precedences                # bits: those for which there is a rate
    unordered_map[string, QuotaRef] quotas     # of those that were seen, by who shares it
    size_t sweep_at                # as many of them, and those that are not used are dropped
    int64_t swept_ns               # when that was
    unordered_map[string, QuotaRef] crowds     # of names for which there is no room, by entity

cdef cppclass QuotaTable:
    int64_t window_ns              # constant
    atomic_i64 generation          # of the rates; 0: there never were any
    mutex guard
    Rates[3] kinds

# What a connection knows of the table, so that it looks there once, not with each request.
cdef cppclass ClientQuotas:
    string client_id
    int64_t generation             # of the table when it looked; 0: it did not, as this principal
    QuotaRef produce               # null: it has no quota
    QuotaRef fetch

# Names that are kept, of all kinds.
cdef int64_t quotas_count(QuotaTable* table) noexcept nogil
cdef void quotas_init(QuotaTable* table, int64_t window_ns) noexcept nogil
# The key of an entity; a name that its precedence has no place for is left out.
cdef string quota_entity(int precedence, const string& user, const string& client) noexcept nogil
# Replaces the rates of a kind; who has another one than before begins anew.
cdef void quotas_set(QuotaTable* table, int kind,
                     unordered_map[string, int64_t]* by_entity) noexcept nogil
# Brings up to date what a connection of this principal knows.
cdef void quotas_use(QuotaTable* table, const string& principal, Piece client_id,
                     ClientQuotas* client) noexcept nogil
# Null: there is none.
cdef QuotaRef quota_find(QuotaTable* table, int kind, const string& user, const string& client,
                         int64_t now_ns) noexcept nogil
# A rate that holds from now on.
cdef void quota_set_rate(Quota* quota, int64_t rate) noexcept nogil
# Counts `amount` as used; for how long, in ns, the client is not to be served.
cdef int64_t quota_charge(Quota* quota, int64_t amount, int64_t now_ns,
                          int64_t window_ns) noexcept nogil
# The same, of what was used before.
cdef int64_t quota_delay(Quota* quota, int64_t now_ns, int64_t window_ns) noexcept nogil
# What may be used at once without a delay, by one that used nothing.
cdef int64_t quota_window(Quota* quota, int64_t window_ns) noexcept nogil
