"""Threads that wait for the disk in place of network threads.

A network thread serves a thousand clients, which would all wait while it reads old records from the
disk for one of them. So it checks the page cache first (`is_cached`). One of these threads reads
other records, and notifies the network thread by mail.
"""

from libc.stdint cimport int32_t, int64_t
from libcpp.deque cimport deque
from libcpp.memory cimport shared_ptr, weak_ptr
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.native._native cimport atomic_bool, atomic_i64, condition, mutex, pthread_t
from appliance.storage._partition_log cimport LogRef
from appliance.storage._partition_waits cimport InboxRef


cdef enum:
    COLD_BYTES = 1048576           # read at once: on a disk that turns, a seek costs about as much
    LOOKUP_BYTES = 65536           # of what a lookup found: a small answer needs no second read
    LOOKUPS_MAX = 16               # of a read: their bytes are as many as those of any other
    AHEAD_BYTES = 1048576          # begun behind what is read: the disk works while that is sent

# Where a partition's records for a fetch are: to be found out, which reads index and headers.
cdef cppclass Lookup:
    LogRef log
    int64_t offset
    int64_t max_bytes
    int limit

# Who asked holds it, the queue does not: what was asked for a connection that ended is not read.
cdef cppclass ColdRead:
    InboxRef inbox                 # is told of its end; empty: nobody waits for it
    int kind                       # of that mail
    int64_t connection
    int64_t slot
    vector[Lookup] lookups
    FileRef file                   # whose bytes are wanted; empty: lookups are
    int64_t position
    int64_t size
    atomic_bool is_done

ctypedef shared_ptr[ColdRead] ColdReadRef

cdef cppclass ColdReaders:
    mutex guard
    condition wake
    deque[weak_ptr[ColdRead]] queue            # guard; the oldest first
    bint must_stop                 # guard
    vector[pthread_t] threads
    atomic_i64 reads               # that were done

# The result: 0, or what the thread that could not be made failed with.
cdef int cold_readers_start(ColdReaders* readers, int32_t threads) noexcept nogil
cdef void cold_readers_stop(ColdReaders* readers) noexcept nogil
cdef ColdReadRef cold_read_new(const InboxRef& inbox, int kind, int64_t connection,
                               int64_t slot) noexcept nogil
cdef void cold_read_put(ColdReaders* readers, const ColdReadRef& read) noexcept nogil
