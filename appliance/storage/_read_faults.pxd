"""Reads of stored records that failed or were refused: from whichever thread met it to whoever
verifies the segment. Bounded, and no thread waits for another longer than a copy takes."""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_i64, mutex

cdef enum:
    FAULTS_MAX = 256               # segments noted at once; the rest are counted alone

# What was met in one segment since somebody asked.
cdef cppclass ReadFault:
    string name                    # of the partition's directory
    int64_t base_offset            # of the segment
    int64_t offset                 # the first that was asked for, and `code` what became of it
    int code
    int error                      # what the kernel said; 0: nothing
    int64_t count
    int64_t last_ns                # monotonic; of the last one

cdef cppclass ReadFaults:
    mutex guard
    vector[ReadFault] noted        # guard; each segment once
    int wake_fd                    # guard; an eventfd, told of the first in `noted`; -1: nobody is
    atomic_i64 count               # in this life
    atomic_i64 unnamed             # of those, how many found no place in `noted`

    inline void __init__() noexcept nogil:
        this.wake_fd = -1

# Whether a code says that stored bytes could not be read, or were not what was written: not where
# a reader has to wait, to ask again or to go elsewhere.
cdef bint is_read_fault(int code) noexcept nogil

cdef void read_faults_note(ReadFaults* faults, const string& name, int64_t base_offset,
                           int64_t offset, int code) noexcept nogil

# All that were noted, and none is any more.
cdef void read_faults_take(ReadFaults* faults, vector[ReadFault]* into) noexcept nogil

cdef void read_faults_wake(ReadFaults* faults, int fd) noexcept nogil
