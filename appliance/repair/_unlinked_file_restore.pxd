"""Restores a segment's file that is gone from its directory while it is open."""

from libc.stdint cimport int64_t

from appliance.repair._scan cimport Scan

# The name in the directory must belong to the open file, because the next start opens it by name.
# Otherwise this writes the file again. The caller holds `maintenance`. OK or a code.
cdef int file_settle(Scan* scan) noexcept nogil

# Links the file with a segment's name as `.log.corrupt-<ms>`, for manual recovery. OK, also without
# a file, or a code.
cdef int file_keep_aside(int directory_fd, int64_t base_offset) noexcept nogil
