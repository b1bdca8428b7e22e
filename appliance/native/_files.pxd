"""Whole reads and writes over file descriptors, and the names of a partition's files."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

cdef enum:
    DOING_SIZE = 32
    NAME_SIZE = 64                 # 20 digits, a suffix and room for `.corrupt-<ms>`

# What the kernel said of something that was done.
cdef struct Failure:
    int error                      # 0: nothing
    char[DOING_SIZE] doing
    char[NAME_SIZE] name

# errno as a code: STORAGE_FULL, FILES_EXHAUSTED or STORAGE_IO. Notes it for `error_of`, with what
# was being done to which file; the shorter form where neither is known.
cdef int failure_note(const char* doing, const char* name, int error) noexcept nogil
cdef int storage_code(int error) noexcept nogil

# Before something that may fail: what failed earlier on this thread, and was dealt with, is no
# reason of it.
cdef void failure_forget() noexcept nogil
cdef int failure_errno() noexcept nogil

# For a thread that makes no exceptions: what was noted, and the same noted on the thread that does.
cdef void failure_keep(Failure* into) noexcept nogil
cdef void failure_recall(const Failure* kept) noexcept nogil

# The exception for a code, with what was noted on this thread; the words alone.
cdef object error_of(int code, str facts)
cdef str failure_text()

# "00000000000000000042.log"; `suffix` includes its dot.
cdef void file_name(char* name, int64_t base_offset, const char* suffix) noexcept nogil

# All of `size` bytes at `position`, across short writes and EINTR: OK or a code.
cdef int write_whole(int fd, const uint8_t* data, int64_t size, int64_t position) noexcept nogil

# Whether an errno is of the bytes themselves: a sector that cannot be read, a checksum of the file
# system's.
cdef bint is_media_error(int error) noexcept nogil

# From now on this thread may wait for the disk in `read_whole`, or may not: then that answers
# WOULD_WAIT when not all is in the page cache. On a file system that cannot say so it waits.
cdef void disk_may_wait(bint may) noexcept nogil
cdef bint disk_must_not_wait() noexcept nogil

# Whether bytes of a file are in the page cache; before Linux 6.5 as far as samples tell.
cdef bint is_cached(int fd, int64_t position, int64_t size) noexcept nogil
# Gets them there, but for what nobody can read; begins with what follows them, too.
cdef void fill_cache(int fd, int64_t position, int64_t size, int64_t ahead) noexcept nogil

# Up to `size` bytes, fewer only at the end of the file: a count or a code.
cdef int64_t read_whole(int fd, uint8_t* data, int64_t size, int64_t position) noexcept nogil

# The bytes [position, end) of one file to the start of another, synced: OK or a code; `short_code`
# where the source ends before.
cdef int copy_whole(int source, int target, int64_t position, int64_t end,
                    int short_code) noexcept nogil

# A descriptor or a code. O_CLOEXEC and O_NOFOLLOW are always set.
cdef int open_file(int directory_fd, const char* name, int flags) noexcept nogil

# A whole small file (an index, a snapshot) as bytes. What is absent, or no regular file, counts as
# empty. Count or code.
cdef int64_t load_file(int directory_fd, const char* name, vector[uint8_t]* into) noexcept nogil

cdef int sync_directory(int directory_fd) noexcept nogil
cdef int sync_file(int fd) noexcept nogil

# Of a sync, or of the start of a write-back, whose errno has this code: STORAGE_FULL_LATE or
# STORAGE_IO.
cdef int sync_code(int code) noexcept nogil

# Makes the next reads of this file come from the disk. The code is that of the sync before it.
cdef int drop_cache(int fd) noexcept nogil

cdef int64_t file_size(int fd) noexcept nogil
