"""Kernel and C++ runtime calls, all usable without the GIL."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from posix.types cimport mode_t, off_t

cdef extern from "_native.h" nogil:
    shared_ptr[T] own[T](T* object, void (*release)(T*) noexcept nogil)
    T zeroed[T]()
    bint mutant(const char* name)
    void set_errno(int value)

    cppclass RawBytes "raw_bytes":
        uint8_t* data()
        size_t size()
        size_t capacity()
        void reserve(size_t size)
        void resize(size_t size)
        void assign(const uint8_t* begin, const uint8_t* end)
        void clear()
        void swap(RawBytes& other)

    cppclass mutex "std::mutex":
        void lock()
        void unlock()
        bint try_lock()

    cppclass ScopeLock "scope_lock":
        void hold(mutex& guard)
        bint try_hold(mutex& guard)
        void release()

    cppclass condition:
        void notify_one()
        void notify_all()
        void wait(mutex guard)  # may come back for no reason: ask again

    bint wait_until(condition changed, mutex guard, int64_t deadline_ns)

    # memory order is sequentially consistent throughout: none of these is on a path where it costs
    cppclass atomic_i64 "std::atomic<int64_t>":
        int64_t load()
        void store(int64_t value)
        int64_t fetch_add(int64_t delta)
        int64_t exchange(int64_t value)
        bint compare_exchange_weak(int64_t& expected, int64_t value)

    void count_own(atomic_i64& counter, int64_t more)

    cppclass CounterLines "counter_lines":
        CounterLines(size_t threads)
        void add(size_t thread, size_t what, int64_t more)
        int64_t sum(size_t what)

    cppclass atomic_bool "std::atomic<bool>":
        bint load()
        void store(bint value)
        bint exchange(bint value)

cdef extern from "errno.h" nogil:
    int errno
    enum:
        EINTR, EIO, ENOSPC, EDQUOT, EROFS, EMFILE, ENFILE, ENOENT, ENOTDIR, EEXIST, EAGAIN,
        EOPNOTSUPP

cdef extern from "pthread.h" nogil:
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t* thread, const void* attributes,
                       void* (*run)(void*) noexcept nogil, void* argument)
    int pthread_join(pthread_t thread, void** result)
    int pthread_setname_np(pthread_t thread, const char* name)

cdef extern from "time.h" nogil:
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* now)
    enum:
        CLOCK_MONOTONIC, CLOCK_REALTIME

cdef extern from "fcntl.h" nogil:
    int openat(int directory_fd, const char* path, int flags, ...)
    int posix_fadvise(int fd, off_t position, off_t size, int advice)
    int sync_file_range(int fd, off_t position, off_t size, unsigned int flags)
    int fallocate(int fd, int mode, off_t position, off_t size)
    enum:
        O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK,
        O_TRUNC
        AT_SYMLINK_NOFOLLOW
        POSIX_FADV_DONTNEED, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED
        SYNC_FILE_RANGE_WRITE

cdef extern from "unistd.h" nogil:
    int close(int fd)
    int fsync(int fd)
    int fdatasync(int fd)
    int syncfs(int fd)
    int ftruncate(int fd, off_t size)
    int unlinkat(int directory_fd, const char* path, int flags)
    int linkat(int old_directory_fd, const char* old_path, int new_directory_fd,
               const char* new_path, int flags)
    ssize_t pread(int fd, void* data, size_t size, off_t position)
    ssize_t pwrite(int fd, const void* data, size_t size, off_t position)

cdef extern from "stdio.h" nogil:
    int renameat(int old_directory_fd, const char* old_path, int new_directory_fd,
                 const char* new_path)
    int snprintf(char* text, size_t size, const char* form, ...)

cdef extern from "sys/stat.h" nogil:
    struct c_stat "stat":
        off_t st_size
        mode_t st_mode
        int64_t st_blocks
        unsigned long st_dev
        unsigned long st_ino
        timespec st_mtim
    int fstat(int fd, c_stat* status)
    int fstatat(int directory_fd, const char* path, c_stat* status, int flags)
    bint S_ISREG(mode_t mode)


cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1000000000 + now.tv_nsec


cdef inline int64_t wall_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1000000
