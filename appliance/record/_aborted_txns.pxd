"""Transactions that were aborted in a range of a log: their records are shown to nobody."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.record._batch cimport BatchHeader

# The aborted transactions of a range of a log, as a Fetch tells them, while one goes through its
# batches in order.
cdef struct AbortedTxn:
    int64_t producer_id
    int64_t first_offset

cdef cppclass AbortedTxns:
    vector[AbortedTxn] listed      # by first offset
    size_t begun                   # of `listed`
    vector[int64_t] active         # producers within an aborted transaction

# Whether the next batch (whole, checked) is of an aborted transaction. It keeps count of those that
# this batch begins or ends; the marker that ends one is no part of it.
cdef bint batch_is_aborted(
    AbortedTxns* txns, const uint8_t* data, const BatchHeader* header
) noexcept nogil

# `aborted` are pairs of producer id and first offset.
cdef int take_aborted(AbortedTxns* txns, object aborted) except -1
