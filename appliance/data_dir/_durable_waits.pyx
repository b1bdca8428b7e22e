"""Tells the control plane that records are on disk, and on those of all replicas that must have
them. Nobody waits in a thread: who moves the log's offsets sends a mail, as to the data plane.

A wait has the caller's number. `add` begins it, `take` returns those that are over, once `fd` is
readable, and `give_up` ends one whose time is over. Each ends by exactly one of the three.
"""

cimport cython
from libc.stdint cimport int64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance._log cimport Log
from appliance.data_dir._loop_mail cimport loop_mail_take
from appliance.native._codes cimport (
    LOG_CLOSED, LOG_FAILED, NOT_LEADER, OFFSET_OUT_OF_RANGE, OK, TIMED_OUT,
)
from appliance.native._native cimport errno, monotonic_ns
from appliance.native._socket cimport EFD_CLOEXEC, EFD_NONBLOCK, eventfd
from appliance.storage._last_stable_offset cimport log_acknowledged_offset
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._partition_waits cimport (
    WATCH_DURABLE, InboxRef, Watch, inbox_may_sleep, inbox_new, watch_add, watch_rearm,
    watch_remove,
)

from appliance.errors import from_code

cdef enum:
    NOT_YET = 1                    # beside the codes


cdef cppclass Wait:
    Watch watch                    # in the list of `log` as long as this exists
    LogRef log
    int64_t election               # of the append
    int64_t truncations            # of the log when the wait began
    int64_t began_ns


# ---- without the GIL ----

cdef int _found(Wait* wait) noexcept nogil:
    cdef PartitionLog* log = wait.log.get()
    cdef bint is_reached
    # Watched first: what happens after the look sends a mail.
    watch_rearm(&log.watches, &wait.watch, wait.watch.offset)
    is_reached = log_acknowledged_offset(log) >= wait.watch.offset
    # Looked at last: what counts in a later election, or after a cut, may be another record.
    if log.replicas.epoch.load() != wait.election:
        return NOT_LEADER
    if log.truncations.load() != wait.truncations:
        return OFFSET_OUT_OF_RANGE
    if is_reached:
        return OK
    if log.failed.load() != OK:
        return LOG_FAILED
    return LOG_CLOSED if log.is_closed.load() else NOT_YET


# ---- with the GIL ----

@cython.no_gc  # never part of a cycle
cdef class DurableWaits:
    cdef InboxRef inbox
    cdef unordered_map[int64_t, Wait*] waits
    cdef dict logs                 # by number: what an error tells of

    def __cinit__(self):
        cdef int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if fd < 0:
            raise OSError(errno, "no descriptor is free for waits for the disk")
        self.inbox = inbox_new(fd, NULL)
        self.logs = {}
        inbox_may_sleep(self.inbox.get())

    def __dealloc__(self):
        for entry in self.waits:
            watch_remove(&entry.second.log.get().watches, &entry.second.watch)
            del entry.second

    @property
    def fd(self):
        """Readable when `take` has something."""
        return self.inbox.get().event_fd

    def __len__(self):
        return self.waits.size()

    def add(self, int64_t number, Log log not None, int64_t last_offset, int64_t election):
        """Whoever appended it has asked for its commit. False: it is over already, well. Raises
        what it ended with."""
        cdef Wait* wait = new Wait()
        cdef int code
        wait.log = log.log
        wait.election = election
        wait.truncations = wait.log.get().truncations.load()
        wait.began_ns = monotonic_ns()
        wait.watch.kind = WATCH_DURABLE
        wait.watch.offset = last_offset + 1
        wait.watch.is_told = wait.watch.is_listed = False
        wait.watch.inbox = self.inbox.get()
        wait.watch.connection = -1
        wait.watch.slot = number
        with nogil:
            watch_add(&wait.log.get().watches, &wait.watch)
            code = _found(wait)
        self.waits[number] = wait
        self.logs[number] = log
        if code == NOT_YET:
            return True
        error = self._ended(number, code)
        if error is not None:
            raise error
        return False

    def take(self):
        """Of each that is over: its number, and an error or None."""
        cdef vector[int64_t] numbers
        cdef size_t i
        cdef int code
        with nogil:
            loop_mail_take(self.inbox.get(), &numbers)
        over = []
        for i in range(numbers.size()):
            if self.waits.count(numbers[i]):  # it was not given up meanwhile
                code = _found(self.waits[numbers[i]])
                if code != NOT_YET:
                    over.append((numbers[i], self._ended(numbers[i], code)))
        return over

    def give_up(self, int64_t number):
        """What became of it by now: an error, or None. It was not over when it was taken last."""
        cdef int code = _found(self.waits.at(number))
        return self._ended(number, TIMED_OUT if code == NOT_YET else code)

    cdef _ended(self, int64_t number, int code):
        cdef Wait* wait = self.waits[number]
        cdef Log log = self.logs.pop(number)
        self.waits.erase(number)
        watch_remove(&wait.log.get().watches, &wait.watch)
        last_offset = wait.watch.offset - 1
        waited_s = (monotonic_ns() - wait.began_ns) // 1000000 / 1000.0
        del wait
        if code == OK:
            return None
        return from_code(code, log._not_durable(last_offset, waited_s))
