"""Writes batches for the control plane. A thread appends and waits for the disk, so that the event
loop does neither. The thread never takes the GIL: waiting for a busy loop's GIL takes longer than
the disk.

    begin   starts a round: batches in order, each with its log
    (the thread appends all of them before it waits for the disk: one commit covers them)
    take    returns the result of each, once `fd` is readable

A round without a timeout is over when all is appended: `_durable_waits.pyx` has the waits.
"""

from collections import namedtuple

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

from appliance._log cimport Log
from appliance.native._codes cimport OK, TIMED_OUT
from appliance.native._files cimport (
    Failure, error_of, failure_forget, failure_keep, failure_recall,
)
from appliance.native._native cimport (
    close, condition, errno, monotonic_ns, mutex, pthread_create, pthread_join, pthread_setname_np,
    pthread_t,
)
from appliance.native._socket cimport (
    EFD_CLOEXEC, EFD_NONBLOCK, eventfd, eventfd_read, eventfd_write,
)
from appliance.native._wake_soon cimport wake_soon
from appliance.storage._append cimport AppendOptions, Appended
from appliance.storage._append_from_python cimport append_checked
from appliance.storage._commit_requests cimport CommitterRef
from appliance.storage._partition_log cimport LogRef
from appliance.storage._replication cimport log_await
from appliance.storage._storage cimport storage_now

from appliance.errors import from_code
from appliance.storage._append_from_python import ORIGINS as _ORIGINS

cdef enum:
    NO_WAIT = -1

# `error` None: it was written, and in that election; otherwise there is none of the others.
Written = namedtuple("Written", "error base_offset last_offset append_time election")


cdef cppclass Write:
    CommitterRef committer
    LogRef log
    const uint8_t* data            # kept by the round's list of batches
    size_t size
    vector[uint8_t] batch          # a copy, which the append stamps
    int origin
    bint is_awaited                # somebody waits for the disk: committed at once
    int32_t election               # it is refused in a later one; -1: in none
    Appended appended
    int append_code
    Failure failure                # of the append: what the kernel said
    int await_code


cdef cppclass Writer:
    int event_fd
    mutex guard
    condition wake
    vector[Write] writes           # the thread's own during a round
    int64_t timeout_ns             # NO_WAIT: the round ends with the appends
    bint is_given                  # guard; the thread has not seen the new round
    bint is_stopping               # guard


# ---- without the GIL ----

cdef void* _run(void* argument) noexcept nogil:
    cdef Writer* writer = <Writer*>argument
    wake_soon()
    writer.guard.lock()
    while True:
        while not writer.is_given and not writer.is_stopping:
            writer.wake.wait(writer.guard)
        if not writer.is_given:
            break
        writer.is_given = False
        writer.guard.unlock()
        _write_all(writer)
        eventfd_write(writer.event_fd, 1)
        writer.guard.lock()
    writer.guard.unlock()
    return NULL


cdef void _write_all(Writer* writer) noexcept nogil:
    cdef int64_t deadline_ns = monotonic_ns() + writer.timeout_ns
    cdef Write* write
    cdef AppendOptions options
    cdef size_t i
    for i in range(writer.writes.size()):
        write = &writer.writes[i]
        write.batch.assign(write.data, write.data + write.size)
        options.origin, options.is_awaited = write.origin, write.is_awaited
        options.leader_epoch = write.election
        storage_now(write.log.get().storage.get(), &options.earliest_ms, &options.latest_ms)
        failure_forget()
        write.append_code = append_checked(write.committer.get(), write.log, write.batch.data(),
                                           write.batch.size(), &options, &write.appended)
        if write.append_code != OK:
            failure_keep(&write.failure)
    if writer.timeout_ns == NO_WAIT:
        return
    for i in range(writer.writes.size()):
        write = &writer.writes[i]
        if write.append_code == OK:
            write.await_code = log_await(write.committer.get(), write.log,
                                         write.appended.last_offset, write.appended.election,
                                         deadline_ns)


# ---- with the GIL ----

@cython.no_gc  # never part of a cycle
cdef class LogWriter:
    cdef Writer* writer
    cdef pthread_t thread
    cdef list batches              # of the current round; None: no round
    cdef object timeout_s          # None: it ends with the appends

    def __cinit__(self):
        self.writer = new Writer()
        self.writer.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self.writer.event_fd < 0:
            raise OSError(errno, "no descriptor is free for the log writer")
        if pthread_create(&self.thread, NULL, _run, self.writer) != 0:
            close(self.writer.event_fd)
            self.writer.event_fd = -1
            raise OSError(errno, "no thread can be created for the log writer")
        pthread_setname_np(self.thread, b"log-writer")

    def __dealloc__(self):
        if self.writer.event_fd >= 0:
            self.close()
        del self.writer

    def close(self):
        """To be called after the last write."""
        if self.writer.event_fd < 0:
            return
        with nogil:
            self.writer.guard.lock()
            self.writer.is_stopping = True
            self.writer.wake.notify_one()
            self.writer.guard.unlock()
            pthread_join(self.thread, NULL)
        close(self.writer.event_fd)
        self.writer.event_fd = -1

    @property
    def fd(self):
        """Readable once `take` has a result."""
        return self.writer.event_fd

    def begin(self, list batches not None, object timeout_s):
        """Starts to write each batch to its log. One round at a time. A batch comes with the
        election in which its log is led, or -1: who wrote it has lost its say with the next. It may
        come with an origin of its own, and with whether anybody waits for the disk. The broker's
        own records (coordinator) are appended even at low disk space: readers who cannot commit
        read twice."""
        cdef size_t i
        if self.batches is not None:
            raise ValueError(f"a round of {len(self.batches)} batches is in progress")
        self.writer.writes.resize(len(batches))
        for i, (log, data, election, *more) in enumerate(batches):
            origin, is_awaited = more or ("coordinator", True)
            _fill(&self.writer.writes[i], log, data, election, origin, is_awaited)
        self.batches, self.timeout_s = batches, timeout_s
        self.writer.timeout_ns = NO_WAIT if timeout_s is None else <int64_t>(timeout_s * 1e9)
        self.writer.guard.lock()
        self.writer.is_given = True
        self.writer.wake.notify_one()
        self.writer.guard.unlock()

    def take(self):
        """A `Written` for each batch. None without a round, or before its end."""
        cdef uint64_t count
        if eventfd_read(self.writer.event_fd, &count) < 0:
            return None
        batches, self.batches = self.batches, None
        outcomes = [self._told(each[0], i) for i, each in enumerate(batches)]
        self.writer.writes.clear()
        return outcomes

    cdef _told(self, Log log, size_t i):
        cdef Write* write = &self.writer.writes[i]
        cdef Appended* appended = &write.appended
        if write.append_code != OK:
            facts = log._refused(write.append_code, write.batch.data(), write.batch.size())
            failure_recall(&write.failure)
            return Written(error_of(write.append_code, facts), -1, -1, -1, -1)
        if self.timeout_s is not None and write.await_code != OK:
            facts = log._not_durable(appended.last_offset, self.timeout_s)
            return Written(from_code(write.await_code, facts), -1, -1, -1, -1)
        return Written(None, appended.base_offset, appended.last_offset, appended.append_time,
                       appended.election)


cdef int _fill(Write* write, Log log, bytes data, int32_t election, str origin,
               bint is_awaited) except -1:
    write.committer, write.log = log.committer, log.log
    write.data, write.size = <const uint8_t*><char*>data, len(data)
    write.election = election
    write.origin, write.is_awaited = _ORIGINS[origin], is_awaited
    # A thread that memory fails returns early: what it has not come to must not count as written.
    write.append_code = write.await_code = TIMED_OUT
    write.failure.error = 0
    return 0
