"""Leader epochs: which epoch each offset was written in.

A batch has its epoch. Every checkpoint has the start offset of each epoch. So a client that saw
records which an unclean end lost can learn the offset at which its history diverges.
"""

from cython.operator cimport dereference

from appliance.native._native cimport ScopeLock


# ---- without the GIL ----

cdef bint epochs_allow(const PartitionLog* log, const BatchHeader* header) noexcept nogil:
    return log.epochs.empty() or header.leader_epoch >= log.epochs.back().epoch


cdef int32_t epochs_last(const PartitionLog* log) noexcept nogil:
    return -1 if log.epochs.empty() else log.epochs.back().epoch


cdef void epochs_cut(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef size_t kept = 0
    while kept < log.epochs.size() and log.epochs[kept].start_offset < offset:
        kept += 1
    log.epochs.resize(kept)


cdef void epochs_open(PartitionLog* log, int64_t saved_epoch, bint is_next) noexcept nogil:
    cdef int64_t epoch = saved_epoch
    if not log.epochs.empty():
        epoch = max(epoch, <int64_t>log.epochs.back().epoch)
    log.leader_epoch.store(epoch + is_next)


cdef void epochs_end_of(PartitionLog* log, int32_t epoch, int32_t* last,
                        int64_t* end_offset) noexcept nogil:
    cdef size_t i
    cdef ScopeLock lock
    lock.hold(log.guard)
    last[0] = -1
    end_offset[0] = -1
    for i in range(log.epochs.size()):
        if log.epochs[i].epoch > epoch:
            break
        last[0] = log.epochs[i].epoch
        end_offset[0] = log.log_end_offset.load()
        if i + 1 < log.epochs.size():
            end_offset[0] = log.epochs[i + 1].start_offset


cdef int32_t epochs_at(PartitionLog* log, int64_t offset) noexcept nogil:
    cdef int32_t epoch = <int32_t>log.leader_epoch.load(), before = -1
    cdef int64_t end_offset = -1
    while True:
        epochs_end_of(log, epoch - 1, &before, &end_offset)
        if before < 0 or offset >= end_offset:
            return epoch
        epoch = before


cdef bint epochs_fit(const vector[EpochEntry]* epochs, const BatchHeader* header) noexcept nogil:
    cdef int32_t epoch = -1
    cdef size_t i
    for i in range(epochs.size()):
        if dereference(epochs)[i].start_offset <= header.base_offset:
            epoch = dereference(epochs)[i].epoch
    return epoch < 0 or header.leader_epoch == epoch
