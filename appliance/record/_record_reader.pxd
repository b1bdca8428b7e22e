"""What turns fetched batches into messages. With the GIL throughout, so that a flag set by another
thread is seen by the next message, and no message is handed out after it."""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader, Payload

# One record, as an application sees it.
cdef class Message:
    cdef readonly object topic         # str
    cdef readonly object partition     # as the caller named it
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp    # ms since 1970
    cdef readonly object key           # bytes or None
    cdef readonly object value         # bytes or None
    cdef readonly object headers       # tuple of (str, bytes or None)

# How far the reading of a partition is: one for all readers of one claim on it.
cdef class ConsumerPosition:
    cdef public int64_t next_offset    # behind what was handed out
    cdef public int64_t done           # everything below is done with: its successor was asked for
    cdef public bint is_over           # nothing more may be handed out

cdef class RecordReader:
    cdef readonly ConsumerPosition progress
    cdef readonly int64_t end_offset   # behind the last batch; without one, what was asked for
    cdef readonly int64_t size         # bytes of whole batches
    cdef object topic
    cdef object partition
    cdef const unsigned char[::1] data
    cdef vector[BatchHeader] batches
    cdef size_t index                  # of the batch that is next
    cdef int64_t position              # of that batch in the bytes
    cdef int64_t size_max              # of a batch's records, decompressed
    cdef Payload payload               # the batch that is being read; None: none is
    cdef int64_t base_offset
    cdef int64_t append_time           # -1: records have their own
    cdef int32_t left                  # records of it not looked at yet
    cdef object read(self)

cdef class MessageIterator:
    cdef RecordReader reader
