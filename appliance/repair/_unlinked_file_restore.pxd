"""A segment's file that is gone from its directory while it is open."""

from libc.stdint cimport int64_t

from appliance.repair._scan cimport Scan

# The name in the directory must lead to the file that is served: the next start goes by it. Where
# it does not, the file is written anew. With maintenance held. OK or a code.
cdef int file_settle(Scan* scan) noexcept nogil

# Keeps what a segment's name leads to under a second name, `.log.corrupt-<ms>`: a person may make
# more of it. OK, also where nothing is there, or a code.
cdef int file_keep_aside(int directory_fd, int64_t base_offset) noexcept nogil
