"""Damage at a start: unacknowledged bytes are cut. Acknowledged records are lost and become a hole,
after which the log continues.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.string cimport string

from appliance.native._codes cimport OK
from appliance.storage._salvage cimport (
    CAUSE_BATCH_DAMAGED, CAUSE_FILE_SHORT, CAUSE_NOT_NOTED, salvage_cut, salvage_file_of,
    salvage_hole, salvage_segment, salvage_split,
)


# ---- without the GIL ----

cdef int damage_split(PartitionLog* log, size_t slot, bint may_have_gaps,
                      Recovered* recovered) noexcept nogil:
    cdef int64_t offset = log.segments[slot].get().end_offset.load()
    cdef int64_t high = INT64_MAX
    cdef bint is_last = slot + 1 == log.segments.size()
    if not is_last:
        high = log.segments[slot + 1].get().base_offset
    if offset < recovered.promised_offset:
        return salvage_split(log, slot, min(high, recovered.promised_offset + 1),
                             CAUSE_BATCH_DAMAGED, recovered)
    # Nobody knows whether these were acknowledged. In the middle of a foreign log they stay as
    # they are.
    if not recovered.is_noted and is_last:
        return salvage_split(log, slot, high, CAUSE_NOT_NOTED, recovered)
    return 1


cdef bint damage_is_passed(PartitionLog* log, size_t slot, int code, bint may_have_gaps,
                           Recovered* recovered) noexcept nogil:
    cdef int64_t offset = log.segments[slot].get().end_offset.load()
    cdef int64_t next_offset = log.segments[slot + 1].get().base_offset
    cdef string aside
    if code == 0 and (may_have_gaps or next_offset == offset):
        return True
    if not may_have_gaps and next_offset > recovered.promised_offset:
        return False
    if code == 1:
        aside = salvage_file_of(log.segments[slot].get())
    salvage_hole(log, offset, next_offset,
                 CAUSE_BATCH_DAMAGED if code == 1 else CAUSE_FILE_SHORT, aside, recovered)
    return True


cdef int damage_ends_log(PartitionLog* log, size_t slot, int code,
                         Recovered* recovered) noexcept nogil:
    cdef int64_t offset = log.segments[slot].get().end_offset.load()
    cdef int64_t promised = recovered.promised_offset
    cdef int cause = CAUSE_BATCH_DAMAGED if code == 1 else CAUSE_FILE_SHORT
    cdef string aside
    code = salvage_cut(log, slot, offset < promised, &aside, recovered)
    if code != OK or offset >= promised:
        return code
    salvage_hole(log, offset, promised, cause, aside, recovered)
    code = salvage_segment(log, promised)
    log.segments.back().get().end_offset.store(promised)
    return code
