"""The queue of requests that the data plane hands to the control plane."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance._socket cimport eventfd_read, eventfd_write

# ---- without the GIL ----

cdef void punt_put(Plane* plane, int64_t connection, int64_t slot, const string& peer,
                   const uint8_t* frame, int64_t size) noexcept nogil:
    cdef Punt punt
    cdef bint must_signal
    punt.connection = connection
    punt.slot = slot
    punt.peer = peer
    punt.frame.assign(frame, frame + size)
    plane.counters.punted_requests.fetch_add(1)
    plane.guard.lock()
    plane.punts.push_back(punt)
    must_signal = not plane.is_signalled
    plane.is_signalled = True
    plane.guard.unlock()
    if must_signal:
        eventfd_write(plane.punt_fd, 1)


cdef void punts_take(Plane* plane, vector[Punt]* into) noexcept nogil:
    cdef uint64_t count
    plane.guard.lock()
    into.swap(plane.punts)
    if plane.is_signalled:
        # Nothing to handle: it only says that there is nothing to reset.
        eventfd_read(plane.punt_fd, &count)
        plane.is_signalled = False
    plane.guard.unlock()


# ---- with the GIL ----
