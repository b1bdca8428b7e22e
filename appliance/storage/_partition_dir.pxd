"""The names in a partition's directory."""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

# The offset in "<20 digits><suffix>", or -1.
cdef int64_t base_of(const char* name, const char* suffix) noexcept nogil

# Bases of the segments and transaction indexes in a partition's directory, sorted, and leftovers.
cdef int list_directory(int directory_fd, vector[int64_t]* bases, vector[int64_t]* txn_bases,
                        vector[string]* rubbish) noexcept nogil

cdef int unlink_base(int directory_fd, int64_t base) noexcept nogil
