"""Notes refused reads. Only threads that met damage come here, so one lock for all suffices."""

from libc.stdint cimport int64_t, uint64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_CODEC, BATCH_TORN, STORAGE_IO
from appliance.native._files cimport failure_errno
from appliance.native._native cimport monotonic_ns
from appliance.native._socket cimport eventfd_read, eventfd_write


# ---- without the GIL ----

cdef bint is_read_fault(int code) noexcept nogil:
    return BATCH_CODEC <= code <= BATCH_TORN or code == STORAGE_IO


cdef void read_faults_note(ReadFaults* faults, const string& name, int64_t base_offset,
                           int64_t offset, int code) noexcept nogil:
    cdef ReadFault* known = NULL
    cdef size_t i
    faults.count.fetch_add(1)
    faults.guard.lock()
    for i in range(faults.noted.size()):
        if faults.noted[i].base_offset == base_offset and faults.noted[i].name == name:
            known = &faults.noted[i]
    if known == NULL and faults.noted.size() < FAULTS_MAX:
        faults.noted.resize(faults.noted.size() + 1)
        known = &faults.noted.back()
        known.name = name
        known.base_offset, known.offset, known.code = base_offset, offset, code
        known.error = failure_errno() if code == STORAGE_IO else 0
        if faults.noted.size() == 1 and faults.wake_fd >= 0:
            eventfd_write(faults.wake_fd, 1)
    if known == NULL:
        faults.unnamed.fetch_add(1)
    else:
        known.count += 1
        known.last_ns = monotonic_ns()
    faults.guard.unlock()


cdef void read_faults_take(ReadFaults* faults, vector[ReadFault]* into) noexcept nogil:
    cdef uint64_t count
    into.clear()
    faults.guard.lock()
    into.swap(faults.noted)
    if faults.wake_fd >= 0:
        eventfd_read(faults.wake_fd, &count)
    faults.guard.unlock()


cdef void read_faults_wake(ReadFaults* faults, int fd) noexcept nogil:
    faults.guard.lock()
    faults.wake_fd = fd
    faults.guard.unlock()
