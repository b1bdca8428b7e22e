from libc.stdint cimport uint8_t

from appliance.record._batch cimport BatchHeader
from appliance.storage._append cimport AppendOptions, Appended
from appliance.storage._partition_log cimport PartitionLog

# OK; DUPLICATE, with the first append's result in `appended`; or the code of the refusal. guard is
# held.
cdef int append_check(PartitionLog* log, const uint8_t* data, const BatchHeader* header,
                      const AppendOptions* options, Appended* appended) noexcept nogil
