"""The descriptors of the logs.

The limit is the process's, so there is one count, whatever number of data directories is open. It
is a limit of our own below the kernel's (`descriptor_budget.py` shares that out): what lies between
is for clients, the catalog and whatever a library opens without asking.

Directories. What is done in one by a name relative to it must not hit another of the same name: a
topic is deleted and made anew. So a log that is closed leaves its directory before it is moved, and
one that is opened again is compared with what it was.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string

from appliance.native._codes cimport LOG_CLOSED, OK
from appliance.native._files cimport failure_note, open_file
from appliance.native._native cimport (
    EMFILE, ENOTDIR, O_DIRECTORY, O_RDONLY, atomic_i64, c_stat, close, errno, fstat,
    monotonic_ns, mutex, own, set_errno,
)

cdef enum:
    AHEAD_SHARE = 4                # of all that may be open; when only so many are free
    STEP_SHARE = 8                 # so many are opened from one look ahead to the next

cdef cppclass Count:
    atomic_i64 most                # that logs may hold open
    atomic_i64 look_at             # as many are open at the next look ahead
    atomic_i64 open
    atomic_i64 refused             # openings that found none free, not even after a relief
    atomic_i64 relieved            # files closed because another was to be opened
    atomic_i64 reliefs
    atomic_i64 refused_ns          # monotonic; the last time; 0: never

cdef Count count
cdef mutex relief_guard
cdef Relief relief = NULL

count.most.store(INT64_MAX)
count.look_at.store(INT64_MAX)


# ---- without the GIL ----

cdef void _file_close(File* file) noexcept nogil:
    close(file.fd)
    count.open.fetch_add(-1)
    del file


cdef void _file_forget(File* file) noexcept nogil:
    del file


cdef FileRef file_own(int fd) noexcept nogil:
    cdef File* file = new File()
    file.fd = fd
    count.open.fetch_add(1)
    return own[File](file, _file_close)


cdef FileRef file_borrow(int fd) noexcept nogil:
    cdef File* file = new File()
    file.fd = fd
    return own[File](file, _file_forget)


cdef int open_counted(int directory_fd, const char* name, int flags) noexcept nogil:
    cdef int code
    if count.open.load() >= count.most.load():
        code = failure_note(b"open", name, EMFILE)
        set_errno(EMFILE)
        return code
    return open_file(directory_fd, name, flags)


# Directories

cdef DirectoryRef directory_new(const FileRef& parent, const string& name) noexcept nogil:
    cdef DirectoryRef directory = make_shared[Directory]()
    directory.get().parent = parent
    directory.get().name = name
    directory.get().fd = -1
    directory.get().device = directory.get().inode = 0
    directory.get().is_left = False
    return directory


cdef DirectoryRef directory_of(const FileRef& file) noexcept nogil:
    cdef FileRef none
    cdef DirectoryRef directory = directory_new(none, string())
    directory.get().file = file
    directory.get().fd = file.get().fd
    return directory


cdef int directory_hold(Directory* directory, FileRef* hold) noexcept nogil:
    cdef int code = OK
    directory.guard.lock()
    if directory.file.get() == NULL:
        code = LOG_CLOSED if directory.is_left else _open(directory)
    if code == OK:
        hold[0] = directory.file
    directory.guard.unlock()
    return code


cdef int _open(Directory* directory) noexcept nogil:
    cdef c_stat status
    cdef FileRef file
    cdef int fd = open_counted(directory.parent.get().fd, directory.name.c_str(),
                               O_RDONLY | O_DIRECTORY)
    if fd < 0:
        return fd
    file = file_own(fd)
    if fstat(fd, &status) < 0:
        return failure_note(b"fstat", directory.name.c_str(), errno)
    if directory.inode != 0 and (directory.inode != <int64_t>status.st_ino
                                 or directory.device != <int64_t>status.st_dev):
        # Somebody moved ours away and put another in its place: nothing of that one is touched.
        return failure_note(b"another directory has the name", directory.name.c_str(), ENOTDIR)
    directory.inode = <int64_t>status.st_ino
    directory.device = <int64_t>status.st_dev
    directory.file = file
    directory.fd = fd
    return OK


cdef bint directory_rest(Directory* directory) noexcept nogil:
    cdef bint is_idle
    if not directory.guard.try_lock():
        return False
    # Who has a hold got it under this guard: with one owner left, that is the directory itself.
    is_idle = directory.parent.get() != NULL and directory.file.use_count() == 1
    if is_idle:
        directory.file.reset()
        directory.fd = -1
    directory.guard.unlock()
    return is_idle


cdef void directory_leave(Directory* directory) noexcept nogil:
    directory.guard.lock()
    directory.is_left = True
    directory.guard.unlock()
    directory_rest(directory)


# Relief

cdef void descriptors_relieved_by(Relief by) noexcept nogil:
    global relief
    relief = by


cdef bint descriptors_relieve() noexcept nogil:
    cdef int64_t seen = count.reliefs.load(), closed = 0
    if relief == NULL:
        return False
    relief_guard.lock()
    if count.reliefs.load() != seen and count.open.load() < count.most.load():
        closed = 1  # whoever was here before closed enough for this one, too
    else:
        closed = _relieve()
    relief_guard.unlock()
    if closed == 0:
        count.refused.fetch_add(1)
        count.refused_ns.store(monotonic_ns())
    return closed > 0


cdef int64_t _relieve() noexcept nogil:
    cdef int64_t closed = relief()
    count.relieved.fetch_add(closed)
    count.reliefs.fetch_add(1)
    _look_later()
    return closed


cdef void _look_later() noexcept nogil:
    cdef int64_t most = count.most.load()
    count.look_at.store(max(most - most // AHEAD_SHARE, count.open.load() + most // STEP_SHARE))


cdef void descriptors_look_ahead() noexcept nogil:
    if not descriptors_are_many():
        return
    relief_guard.lock()
    if count.open.load() >= count.look_at.load():
        _relieve()
    relief_guard.unlock()


cdef bint descriptors_are_many() noexcept nogil:
    return relief != NULL and count.open.load() >= count.look_at.load()


cdef int64_t descriptors_most() noexcept nogil:
    return count.most.load()


# ---- with the GIL ----

def limit(int64_t most):
    """How many files the logs of this process may hold open from now on."""
    count.most.store(most)
    count.look_at.store(most - most // AHEAD_SHARE)


def counters():
    """What logs hold and may hold open; files closed for others' sake and openings refused, and how
    many milliseconds ago the last of these was; -1: never."""
    cdef int64_t now = monotonic_ns()
    return {
        "open": count.open.load(), "most": count.most.load(),
        "relieved": count.relieved.load(), "refused": count.refused.load(),
        "refused_ago_ms": _ago_ms(count.refused_ns.load(), now),
    }


cdef int64_t _ago_ms(int64_t then, int64_t now) noexcept:
    return -1 if then == 0 else max(<int64_t>0, now - then) // 1000000


def relieve(int64_t wanted=1):
    """Closes idle files if fewer than `wanted` may be opened: whether so many may be now."""
    with nogil:
        if count.most.load() - count.open.load() < wanted:
            descriptors_relieve()
    return count.most.load() - count.open.load() >= wanted
