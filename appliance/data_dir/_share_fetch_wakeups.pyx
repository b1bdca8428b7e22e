"""Tells the control plane that a log has advanced, for share fetches.

A wait has the caller's number and an offset. The caller adds `fd` to its event loop and gets the
numbers that are due from `take`. A wait fires once, until it is armed again.
"""

cimport cython
from libc.stdint cimport int64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance._log cimport Log
from appliance.data_dir._loop_mail cimport loop_mail_take
from appliance.native._native cimport errno
from appliance.native._socket cimport EFD_CLOEXEC, EFD_NONBLOCK, eventfd
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._partition_log cimport LogRef
from appliance.storage._partition_waits cimport (
    WATCH_STABLE, WATCH_VISIBLE, InboxRef, Watch, inbox_may_sleep, inbox_new, watch_add,
    watch_rearm, watch_remove,
)


cdef cppclass Wait:
    Watch watch                    # in the list of `log` as long as this exists
    LogRef log


# ---- without the GIL ----

cdef bint _arm(Wait* wait, int64_t offset) noexcept nogil:
    """Whether the log is past the offset already: then the wait does not fire."""
    watch_rearm(&wait.log.get().watches, &wait.watch, offset)
    if wait.watch.kind == WATCH_STABLE:
        return log_last_stable_offset(wait.log.get()) > offset
    return log_high_watermark(wait.log.get()) > offset


# ---- with the GIL ----

@cython.no_gc  # never part of a cycle
cdef class LogWaits:
    cdef InboxRef inbox
    cdef unordered_map[int64_t, Wait*] waits

    def __cinit__(self):
        cdef int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if fd < 0:
            raise OSError(errno, "no descriptor is free for waits for logs")
        self.inbox = inbox_new(fd, NULL)
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

    def arm(self, int64_t number, Log log not None, int64_t offset, bint is_committed):
        """Fires once readers may read past `offset`, or may never; returns whether they may
        already. A wait keeps its log and its visibility until `remove`."""
        cdef Wait* wait
        cdef bint is_past
        if self.waits.count(number) == 0:
            wait = new Wait()
            wait.log = log.log
            wait.watch.kind = WATCH_STABLE if is_committed else WATCH_VISIBLE
            wait.watch.offset = offset
            wait.watch.is_told = False
            wait.watch.is_listed = False
            wait.watch.inbox = self.inbox.get()
            wait.watch.connection = -1
            wait.watch.slot = number
            self.waits[number] = wait
            watch_add(&wait.log.get().watches, &wait.watch)
        wait = self.waits[number]
        with nogil:
            # An advance before the wait was armed fired nothing.
            is_past = _arm(wait, offset)
        return is_past

    def remove(self, int64_t number):
        cdef Wait* wait
        if self.waits.count(number) == 0:
            return
        wait = self.waits[number]
        self.waits.erase(number)
        watch_remove(&wait.log.get().watches, &wait.watch)
        del wait

    def take(self):
        """The numbers that fired since the last call; some may have been removed."""
        cdef vector[int64_t] numbers
        with nogil:
            loop_mail_take(self.inbox.get(), &numbers)
        return list(numbers)
