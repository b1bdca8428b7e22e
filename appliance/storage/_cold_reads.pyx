"""The queue of cold reads, and the threads that execute them, the oldest first.

Each connection waits for one cold read at a time (`_connection.pyx`, `_fetch_park.pyx`).
"""

from libc.stdint cimport int64_t
from libcpp.memory cimport make_shared, weak_ptr

from appliance.native._files cimport fill_cache
from appliance.native._native cimport (
    ScopeLock, pthread_create, pthread_join, pthread_setname_np, pthread_t,
)
from appliance.storage._partition_waits cimport Mail, inbox_put
from appliance.storage._read cimport Slice, log_read


# ---- without the GIL ----

cdef ColdReadRef cold_read_new(const InboxRef& inbox, int kind, int64_t connection,
                               int64_t slot) noexcept nogil:
    cdef ColdReadRef read = make_shared[ColdRead]()
    read.get().inbox = inbox
    read.get().kind = kind
    read.get().connection = connection
    read.get().slot = slot
    return read


cdef void cold_read_put(ColdReaders* readers, const ColdReadRef& read) noexcept nogil:
    readers.guard.lock()
    readers.queue.push_back(weak_ptr[ColdRead](read))
    readers.guard.unlock()
    readers.wake.notify_one()  # who wakes up wants the lock


cdef void* _run(void* argument) noexcept nogil:
    cdef ColdReaders* readers = <ColdReaders*>argument
    cdef ColdReadRef read
    while _take(readers, &read):
        if read.get() != NULL:
            _do(read)
            readers.reads.fetch_add(1)
            _tell(read.get())
            read.reset()
    return NULL


cdef bint _take(ColdReaders* readers, ColdReadRef* read) noexcept nogil:
    """False: there is no more to do. Nothing: who asked for the oldest one is gone."""
    cdef ScopeLock lock
    lock.hold(readers.guard)
    while readers.queue.empty() and not readers.must_stop:
        readers.wake.wait(readers.guard)
    if readers.must_stop:
        return False
    read[0] = readers.queue.front().lock()
    readers.queue.pop_front()
    return True


cdef void _do(const ColdReadRef& held) noexcept nogil:
    """What cannot be read is not told of: whoever needs it meets the same fault."""
    cdef ColdRead* read = held.get()
    cdef Slice slice
    cdef size_t i
    cdef int64_t waited = 0 if read.inbox.get() == NULL else read.size
    if read.file.get() != NULL:
        fill_cache(read.file.get().fd, read.position, waited, read.size - waited + AHEAD_BYTES)
        read.file.reset()  # a connection at rest may hold the read, and no deleted segment
        return
    for i in range(read.lookups.size()):
        if held.use_count() == 1:
            break  # who asked is gone
        slice.size = 0
        log_read(read.lookups[i].log.get(), read.lookups[i].offset, read.lookups[i].max_bytes,
                 read.lookups[i].limit, &slice)
        if slice.size > 0:
            fill_cache(slice.file.get().fd, slice.position,
                       min(slice.size, <int64_t>LOOKUP_BYTES), 0)
    read.lookups.clear()  # whoever still holds the read holds no log


cdef void _tell(ColdRead* read) noexcept nogil:
    cdef Mail mail
    mail.kind = read.kind
    mail.connection = read.connection
    mail.slot = read.slot
    read.is_done.store(True)
    if read.inbox.get() != NULL:
        inbox_put(read.inbox.get(), &mail)


cdef int cold_readers_start(ColdReaders* readers, int32_t threads) noexcept nogil:
    cdef pthread_t thread
    cdef int32_t _i
    cdef int error
    for _i in range(threads):
        error = pthread_create(&thread, NULL, _run, readers)
        if error != 0:
            return error
        pthread_setname_np(thread, b"cold-reader")
        readers.threads.push_back(thread)
    return 0


cdef void cold_readers_stop(ColdReaders* readers) noexcept nogil:
    cdef size_t i
    readers.guard.lock()
    readers.must_stop = True
    readers.wake.notify_all()
    readers.guard.unlock()
    for i in range(readers.threads.size()):
        pthread_join(readers.threads[i], NULL)
    readers.threads.clear()
