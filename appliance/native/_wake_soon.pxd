"""For threads that others wait for: `wake_soon`, at their beginning."""

cdef extern from "_wake_soon.h" nogil:
    void wake_soon() noexcept
