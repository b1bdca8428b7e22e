"""One pointer that each thread has for itself: NULL until the thread keeps one."""

cdef extern from "_thread_local.h" nogil:
    void* thread_kept() noexcept
    void thread_keep(void* what) noexcept
