"""Which batches are of aborted transactions, told while one goes through a log's range in order."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, CONTROL_ABORT, BatchHeader, batch_control_type,
)


# ---- without the GIL ----

cdef void _end_txn(AbortedTxns* txns, int64_t producer_id) noexcept nogil:
    cdef size_t i, kept = 0
    for i in range(txns.active.size()):
        if txns.active[i] != producer_id:
            txns.active[kept] = txns.active[i]
            kept += 1
    txns.active.resize(kept)


cdef bint batch_is_aborted(
    AbortedTxns* txns, const uint8_t* data, const BatchHeader* header
) noexcept nogil:
    cdef int64_t last_offset = header.base_offset + header.last_offset_delta
    cdef int32_t coordinator_epoch
    cdef size_t i
    while txns.begun < txns.listed.size() and txns.listed[txns.begun].first_offset <= last_offset:
        txns.active.push_back(txns.listed[txns.begun].producer_id)
        txns.begun += 1
    if header.attributes & ATTRIBUTE_CONTROL:
        if batch_control_type(data, header, &coordinator_epoch) == CONTROL_ABORT:
            _end_txn(txns, header.producer_id)
        return False
    if not header.attributes & ATTRIBUTE_TRANSACTIONAL:
        return False
    for i in range(txns.active.size()):
        if txns.active[i] == header.producer_id:
            return True
    return False


# ---- with the GIL ----

cdef int take_aborted(AbortedTxns* txns, object aborted) except -1:
    cdef AbortedTxn txn
    for txn.producer_id, txn.first_offset in sorted(aborted, key=lambda pair: pair[1]):
        txns.listed.push_back(txn)
    txns.begun = 0
    return 0
