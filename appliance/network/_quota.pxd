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
    QUOTA_PRODUCE = 0              # bytes of Produce requests a second, by client id
    QUOTA_FETCH = 1                # bytes of records a second, by client id
    QUOTA_CONNECT = 2              # connections a second, by address
    QUOTA_KINDS = 3

cdef enum:
    NO_RATE = 0
    OF_USER = -1                   # in the place of a rate: the user's quota counts

cdef cppclass Quota:
    atomic_i64 rate                # a second; NO_RATE: all is allowed
    atomic_i64 paid_until_ns

ctypedef shared_ptr[Quota] QuotaRef

# One kind. Everything is guarded by the table's guard; the quotas themselves are not.
cdef cppclass Rates:
    unordered_map[string, int64_t] named       # rates by client id or address
    int64_t others
    unordered_map[string, QuotaRef] quotas     # of those that were seen, by the same
    size_t sweep_at                # as many of them, and those that are not used are dropped
    int64_t swept_ns               # when that was
    QuotaRef of_user
    QuotaRef of_crowd              # of names for which there is no room

cdef cppclass QuotaTable:
    int64_t window_ns              # constant
    atomic_i64 generation          # of the rates; 0: there never were any
    mutex guard
    Rates[3] kinds

# What a connection knows of the table, so that it looks there once, not with each request.
cdef cppclass ClientQuotas:
    string client_id
    int64_t generation             # of the table when it looked; 0: it did not
    QuotaRef produce               # null: nothing was ever set
    QuotaRef fetch

# Names that are kept, of all kinds.
cdef int64_t quotas_count(QuotaTable* table) noexcept nogil
cdef void quotas_init(QuotaTable* table, int64_t window_ns) noexcept nogil
# Replaces the rates of a kind; who has another one than before begins anew.
cdef void quotas_set(QuotaTable* table, int kind, unordered_map[string, int64_t]* named,
                     int64_t others, int64_t of_user) noexcept nogil
# Brings up to date what a connection knows.
cdef void quotas_use(QuotaTable* table, Piece client_id, ClientQuotas* client) noexcept nogil
cdef QuotaRef quota_find(QuotaTable* table, int kind, const string& name,
                         int64_t now_ns) noexcept nogil
# Counts `amount` as used; for how long, in ns, the client is not to be served.
cdef int64_t quota_charge(Quota* quota, int64_t amount, int64_t now_ns,
                          int64_t window_ns) noexcept nogil
# The same, of what was used before.
cdef int64_t quota_delay(Quota* quota, int64_t now_ns, int64_t window_ns) noexcept nogil
# What may be used at once without a delay, by one that used nothing.
cdef int64_t quota_window(Quota* quota, int64_t window_ns) noexcept nogil
