"""Failed or refused reads of stored records: from the reading threads to the scrub, which verifies
the segments. Bounded, and no thread waits for another longer than a copy takes."""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_i64, mutex

cdef enum:
    FAULTS_MAX = 256               # noted segments; faults of others are only counted

# The faults of one segment since the last take.
cdef cppclass ReadFault:
    string name                    # of the partition's directory
    int64_t base_offset            # of the segment
    int64_t offset                 # of the first failed read, with its `code`
    int code
    int error                      # errno; 0: none
    int64_t count
    int64_t last_ns                # monotonic; time of the last fault

cdef cppclass ReadFaults:
    mutex guard
    vector[ReadFault] noted        # guard; each segment once
    int wake_fd                    # guard; an eventfd, signalled at the first fault; -1: none
    atomic_i64 count               # since the start
    atomic_i64 unnamed             # of `count`, faults without space in `noted`

    inline void __init__() noexcept nogil:
        this.wake_fd = -1

# Whether a code means unreadable or wrong stored bytes, and not that a reader has to wait or to
# retry.
cdef bint is_read_fault(int code) noexcept nogil

cdef void read_faults_note(ReadFaults* faults, const string& name, int64_t base_offset,
                           int64_t offset, int code) noexcept nogil

# Takes all noted faults.
cdef void read_faults_take(ReadFaults* faults, vector[ReadFault]* into) noexcept nogil

cdef void read_faults_wake(ReadFaults* faults, int fd) noexcept nogil
