"""What a log knows of its replicas on other brokers. `_replication` has what moves it."""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, atomic_i64, mutex

# Who may append: clients to one that is alone or leads, the leader's batches to one that follows.
cdef enum Role:
    ROLE_ALONE = 0                 # no other broker has this log: the box without a cluster
    ROLE_LEADER = 1
    ROLE_FOLLOWER = 2
    ROLE_NOBODY = 3                # no leader is known, or this broker may not lead

# A follower as its leader knows it.
cdef struct Replica:
    int32_t node
    int64_t life                   # of the broker that told `end`; 0: none in this epoch
    int64_t end                    # what it has on disk
    int64_t start                  # where its log begins
    int64_t fetched_ns             # monotonic; its last fetch
    int64_t end_at_fetch           # the leader's log end then
    int64_t caught_up_ns           # monotonic; when it last had all that the leader had
    bint has_caught_up             # it ever did, in this life and this epoch
    bint is_in_sync
    bint is_joining                # proposed for the ISR: waited for until the outcome is known

# guard comes after the log's guard, and before the guards of watches.
cdef cppclass Replicas:
    mutex guard
    vector[Replica] others         # guard; of a leader
    int in_sync                    # guard; how many must have a record, with the leader
    int min_in_sync                # guard; with fewer the watermark stands
    atomic_i64 epoch               # of the last election that was heard of; -1: none
    atomic_i64 leader              # the node that it elected; -1: nobody
    atomic_i64 start               # of a leader: the log end when it began to lead
    atomic_bool lacks_in_sync      # in_sync < min_in_sync
    atomic_bool is_ending          # a leader that takes no more records: another is to be elected
    # By leader.replication.throttled.replicas and follower.replication.throttled.replicas: a rate
    # holds for what followers get of it that are not in sync, or for what it gets until it has all.
    atomic_bool is_slow_to_follow
    atomic_bool follows_slowly
