"""What is known of who may read, write and describe which topics.

Rules are Python's (`access/authorizer.py`). Here are decisions that it made, of a principal at a
host, by topic name; connections of the same principal and host share them. Each has the generation
of the rules it was made by: those of another generation than the table's count as unknown.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_i64, mutex

cdef enum Right:
    RIGHT_READ = 1                 # bits; Python knows them by these numbers
    RIGHT_WRITE = 2                # of a transactional id, too: see rights_id_key
    RIGHT_DESCRIBE = 4
    RIGHT_CLUSTER_ACTION = 8       # of the cluster: see rights_cluster_key

cdef struct Decision:
    int64_t generation
    int known                      # bits
    int allowed                    # bits, of those that are known
    bint is_used                   # since the last look for those that are not

# Of one principal at one host.
cdef cppclass Rights:
    mutex guard
    unordered_map[string, Decision] by_name    # guard

ctypedef shared_ptr[Rights] RightsRef

cdef cppclass RightsTable:
    atomic_i64 generation          # of the rules; 0: there are none to keep, all is allowed
    int64_t decisions_max          # constant
    mutex guard                    # before that of any `Rights`
    unordered_map[string, RightsRef] all       # guard; by principal and host
    size_t sweep_at                # guard; as many, and those that nobody uses are dropped
    int64_t decisions              # guard; of all

# The last decisions that a connection met; a topic has its place by its serial number.
cdef struct Met:
    int64_t serial                 # 0: none
    int64_t generation
    int known
    int allowed

cdef enum:
    MET_MAX = 4                    # a power of 2; most clients have a topic or two

# What a connection knows of the table, so that it looks there once, not with each request.
cdef cppclass ClientRights:
    string principal
    RightsRef shared               # null: nothing was asked for
    Met[MET_MAX] met

cdef inline bint rights_met(const ClientRights* client, int64_t serial, int right,
                            int64_t generation) noexcept nogil:
    """Whether it was allowed when the connection met it last: what nearly every request finds."""
    cdef const Met* met = &client.met[serial & (MET_MAX - 1)]
    return (serial != 0 and met.serial == serial and met.generation == generation
            and met.allowed & right)


cdef enum Verdict:
    VERDICT_UNKNOWN = 0
    VERDICT_ALLOWED = 1
    VERDICT_DENIED = 2

# By the rules of `generation`, which is not 0. `serial`: of the topic, 0 where it has none.
cdef int rights_of(RightsTable* table, ClientRights* client, const string& host, const string& name,
                   int64_t serial, int right, int64_t generation) noexcept nogil

# The name by which the right to a transactional id is kept: no topic can have it.
cdef string rights_id_key(const uint8_t* transactional_id, int64_t size) noexcept nogil
# The name by which the right to act as a broker of the cluster is kept. A transactional id may have
# the same; the bits are others.
cdef string rights_cluster_key() noexcept nogil

# Whether decisions are in use here that are another principal's.
cdef bint rights_is_other(const ClientRights* client,
                          const vector[uint8_t]* principal) noexcept nogil

cdef void rights_init(RightsTable* table, int64_t decisions_max) noexcept nogil
# For the control plane; a decision by other rules than the latest is not kept.
cdef void rights_decide(RightsTable* table, const string& principal, const string& host,
                        const string& name, int known, int allowed,
                        int64_t generation) noexcept nogil
cdef int64_t rights_count(RightsTable* table) noexcept nogil
