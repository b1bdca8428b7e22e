"""What there is for a fetch, partition by partition."""

from libc.stdint cimport int16_t, int32_t, int64_t
from libcpp.vector cimport vector

from appliance.network._connection cimport Fetch
from appliance.network._control_plane_inbox cimport Plane
from appliance.storage._cold_reads cimport Lookup
from appliance.storage._read cimport Slice

cdef cppclass FetchResult:
    size_t target                  # its index in the fetch
    int16_t error
    bint diverges                  # its log is another one from some offset on: see the target
    int32_t preferred              # the broker that is to be asked in place of this one; -1: none
    int64_t visible
    int64_t stable
    int64_t start
    Slice slice

# What stands in `cold` afterwards only the disk knows; when that is as much as one read may take,
# the partitions behind it are left for the next look.
cdef void fetch_look(Plane* plane, Fetch* fetch, vector[FetchResult]* results, int64_t* total,
                     bint* has_error, vector[Lookup]* cold) noexcept nogil
