"""What holds the columns while they grow. Every vector belongs to its object; an Arrow buffer made
of one keeps the object alive, and nothing grows any more by then."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.native._native cimport RawBytes
from appliance.record._aborted_txns cimport AbortedTxns
from appliance.record._records cimport RecordsClaim

# One batch, ready to be copied. The bytes belong to the caller or to a Payload in Columns.owners.
cdef struct Source:
    Cursor records
    RecordsClaim claim
    int64_t base_offset
    int64_t append_time            # -1: each record has its own timestamp

# Byte strings, some of them null.
cdef class BinaryColumn:
    cdef vector[int32_t] ends      # ends[0] is 0; entry i lies from ends[i] to ends[i + 1]
    cdef RawBytes data
    cdef vector[uint8_t] validity  # one bit an entry, lowest bit first; 0: null
    cdef readonly int64_t null_count

# What is left out of a range of a log that is read piece by piece.
cdef class Aborted:
    cdef AbortedTxns txns

# The records of some batches, column by column.
cdef class Columns:
    cdef vector[int64_t] offsets
    cdef vector[int64_t] timestamps
    cdef vector[int32_t] timestamp_types
    cdef vector[int32_t] headers_ends
    cdef vector[Source] sources
    cdef int64_t first_offset      # records below are left out: a Fetch answers with whole batches
    cdef int64_t end_offset        # so are records from here on
    cdef bint with_keys, with_values, with_headers
    cdef list owners
    cdef readonly int64_t next_offset  # behind the last batch; -1: there was none
    cdef readonly int64_t size     # bytes of the batches that were taken
    cdef readonly BinaryColumn key
    cdef readonly BinaryColumn value
    cdef readonly BinaryColumn header_key
    cdef readonly BinaryColumn header_value
