"""A log's place among its replicas, from Python: elections and the ISR are told here. Followers'
fetches and their batches come without this: `network/_fetch.pyx`, `replication/`.
"""

from collections import namedtuple
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport OK
from appliance.native._files cimport failure_forget
from appliance.native._native cimport ScopeLock, monotonic_ns
from appliance.storage._append cimport Appended as CAppended, log_append_replicated
from appliance.storage._append_from_python cimport LogAppender
from appliance.storage._commit_requests cimport committer_notify
from appliance.storage._gaps cimport log_begin_at
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._replicas cimport ROLE_LEADER, Replica
from appliance.storage._replication cimport (
    log_cut_offset, log_diverging, log_end_leading, log_fetched_by, log_follow, log_hold,
    log_is_settled, log_lead, log_replicated_to, log_set_in_sync, log_set_others,
)
from appliance.storage._truncation cimport log_truncate

ReplicaState = namedtuple(
    "ReplicaState", "node life end_offset lag_ms is_in_sync is_joining start_offset has_caught_up"
)

# In the order of `Role`.
ROLES = ("alone", "leader", "follower", "nobody")


# ---- without the GIL ----

cdef void _copy_replicas(PartitionLog* log, vector[Replica]* into) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(log.replicas.guard)
    into[0] = log.replicas.others


# ---- with the GIL ----

cdef class LogReplica(LogAppender):
    """A partition's log as one of several replicas."""

    @property
    def role(self):
        """alone: no other broker has it; leader, follower; nobody: no leader of it is known."""
        return ROLES[self.log.get().role.load()]

    @property
    def leader(self):
        """The node that leads; -1: nobody, or it is alone."""
        return self.log.get().replicas.leader.load()

    @property
    def election(self):
        """The epoch of the last election that it was told of; -1: none."""
        return self.log.get().replicas.epoch.load()

    @property
    def lacks_in_sync(self):
        """It leads, and fewer are in sync than min.insync.replicas."""
        return self.log.get().replicas.lacks_in_sync.load()

    @property
    def leads_from(self):
        """The log end when it was elected; -1: it does not lead, or is alone."""
        cdef PartitionLog* log = self.log.get()
        return log.replicas.start.load() if log.role.load() == ROLE_LEADER else -1

    def hold(self):
        """It is one of several replicas, and nobody leads until an election is told. Nothing, if it
        was told before."""
        with nogil:
            log_hold(self.log.get())

    def lead(self, int32_t epoch, int32_t leader, others, in_sync, int min_in_sync, joining=(),
             bint is_ending=False):
        """This broker, `leader`, leads from now on. `others`: the nodes of the other replicas.
        `joining` were proposed for the ISR in this epoch. One that is ending takes no record."""
        cdef vector[int32_t] all_others = others, all_in_sync = in_sync, all_joining = joining
        cdef int code
        with nogil:
            failure_forget()
            code = log_lead(self.log.get(), epoch, leader, &all_others, &all_in_sync, &all_joining,
                            min_in_sync, is_ending)
        self._raise(code, f"cannot be led in epoch {epoch}; {self._heard_of()}")

    def follow(self, int32_t epoch, int32_t leader):
        """Another broker leads; -1: nobody."""
        cdef int code
        with nogil:
            failure_forget()
            code = log_follow(self.log.get(), epoch, leader)
        self._raise(code, f"cannot follow {leader} in epoch {epoch}; {self._heard_of()}")

    def end_leading(self):
        """Takes no more records, until another election is told; the end of the log."""
        cdef int64_t end_offset
        with nogil:
            failure_forget()
            end_offset = log_end_leading(self.log.get())
        self._raise(<int>min(end_offset, <int64_t>OK), f"is not led; {self._heard_of()}")
        return end_offset

    def set_in_sync(self, int32_t epoch, in_sync, joining, int min_in_sync):
        """The ISR as it is, and who is proposed for it: nothing counts without both from now on."""
        cdef vector[int32_t] all_in_sync = in_sync, all_joining = joining
        cdef int code
        with nogil:
            failure_forget()
            code = log_set_in_sync(self.log.get(), epoch, &all_in_sync, &all_joining, min_in_sync)
        self._raise(code, f"has no ISR to set in epoch {epoch}; {self._heard_of()}")

    def set_others(self, int32_t epoch, others):
        """The nodes of the other replicas, in the same election: some are new, or are gone."""
        cdef vector[int32_t] all_others = others
        cdef int code
        with nogil:
            failure_forget()
            code = log_set_others(self.log.get(), epoch, &all_others)
        self._raise(code, f"has no replicas to change in epoch {epoch}; {self._heard_of()}")

    def replicas(self):
        """Of a leader: its followers, by what they said."""
        cdef vector[Replica] others
        cdef Replica each
        cdef int64_t now = monotonic_ns()
        with nogil:
            _copy_replicas(self.log.get(), &others)
        return [
            ReplicaState(each.node, each.life, each.end, (now - each.caught_up_ns) // 1000000,
                         bool(each.is_in_sync), bool(each.is_joining), each.start,
                         bool(each.has_caught_up))
            for each in others
        ]

    def go_slowly(self, bint is_followed, bint follows):
        """Whether the rates for followers' traffic hold for it, as a leader and as a follower."""
        self.log.get().replicas.is_slow_to_follow.store(is_followed)
        self.log.get().replicas.follows_slowly.store(follows)

    def is_settled(self, int64_t behind_max_ms):
        """Whether all others are in sync, and none has been without everything for so long. Takes
        the lock of one log for a moment, so it keeps the GIL."""
        return log_is_settled(self.log.get(), behind_max_ms * 1000000)

    # What the data plane does

    def fetched_by(self, int32_t node, int64_t life, int32_t epoch, int64_t offset,
                   int64_t log_start=0):
        """A follower has on disk what is from `log_start` to before `offset`."""
        cdef int code
        with nogil:
            failure_forget()
            code = log_fetched_by(self.log.get(), node, life, epoch, offset, log_start)
        self._raise(code, f"fetch of {node} in epoch {epoch}, life {life}; {self._heard_of()}")

    def append_replicated(self, const unsigned char[::1] batches not None, int32_t epoch):
        """Batches as the leader of `epoch` has them: the offset of the last record, or -1."""
        cdef vector[uint8_t] copy
        cdef CAppended appended
        cdef int code
        with nogil:
            failure_forget()
            copy.assign(&batches[0], &batches[0] + batches.shape[0])
            code = log_append_replicated(self.committer.get(), self.log, copy.data(), copy.size(),
                                         epoch, &appended)
        self._raise(code, f"refuses batches of the leader of epoch {epoch} at log end "
                          f"{self.log_end_offset}; {self._heard_of()}")
        return appended.last_offset

    def tell_replicated(self, int32_t epoch, int64_t watermark):
        """At a follower: the leader's high watermark."""
        cdef int code
        with nogil:
            failure_forget()
            code = log_replicated_to(self.log.get(), epoch, watermark)
        self._raise(code, f"does not follow in epoch {epoch}; {self._heard_of()}")

    def diverging(self, int32_t last_epoch, int64_t offset):
        """An epoch and its end here, from which on a log that ends at `offset` with a record of
        `last_epoch` has other records; None: it has the same."""
        cdef int32_t epoch
        cdef int64_t end_offset
        with nogil:
            log_diverging(self.log.get(), last_epoch, offset, &epoch, &end_offset)
        return None if epoch < 0 else (epoch, end_offset)

    def cut(self, int32_t epoch, int64_t end_offset, election=None):
        """Where it has other records than its leader, by what `diverging` said there, in an
        election; without one, in the last that it was told of."""
        cdef int64_t offset, c_election = self.election if election is None else election
        cdef int code
        with nogil:
            failure_forget()
            offset = log_cut_offset(self.log.get(), epoch, end_offset)
            code = log_truncate(self.log.get(), offset, c_election)
            committer_notify(self.committer.get())
        self._raise(code, f"cannot be cut at offset {offset}; {self._heard_of()}")

    def begin_at(self, int64_t offset, election=None):
        """Nothing is kept, and it begins there: its leader has nothing older."""
        cdef int64_t c_election = self.election if election is None else election
        cdef int code
        with nogil:
            failure_forget()
            code = log_begin_at(self.log.get(), offset, c_election)
            committer_notify(self.committer.get())
        self._raise(code, f"cannot begin at offset {offset}; {self._heard_of()}")

    cdef str _heard_of(self):
        return (f"role {self.role}, last election {self.election}, log end {self.log_end_offset}, "
                f"high watermark {self.high_watermark}")
