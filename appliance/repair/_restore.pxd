"""A segment's file that is gone from its directory while it is open."""

from appliance.repair._scan cimport Scan

# The name in the directory must lead to the file that is served: the next start goes by it. Where
# it does not, the file is written anew. With maintenance held. OK or a code.
cdef int file_settle(Scan* scan) noexcept nogil
