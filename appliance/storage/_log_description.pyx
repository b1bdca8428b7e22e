"""The state of a partition's log from Python: its offsets, segments, producers and holes, and the
reason of its failure. `_log_metrics.pyx` has the numbers of many logs at once.
"""

from collections import namedtuple
from libc.stdint cimport int64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._codes cimport FILES_EXHAUSTED, OK, STORAGE_FULL, STORAGE_FULL_LATE
from appliance.native._files cimport error_of, failure_forget, failure_note, failure_text
from appliance.native._native cimport ScopeLock, monotonic_ns
from appliance.storage._checkpoint_journal cimport Hole
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._producers cimport Producer
from appliance.storage._segment cimport Segment, SegmentRef

from appliance.errors import from_code

SegmentInfo = namedtuple("SegmentInfo", "base_offset end_offset size largest_timestamp path")
ProducerInfo = namedtuple(
    "ProducerInfo",
    "producer_id epoch last_sequence last_offset txn_first_offset last_timestamp coordinator_epoch",
)


# ---- without the GIL ----

cdef void _copy_segments(PartitionLog* log, vector[SegmentRef]* into) noexcept nogil:
    cdef ScopeLock list_guard
    list_guard.hold(log.list_guard)
    into[0] = log.segments


cdef void _copy_holes(PartitionLog* log, vector[Hole]* into) noexcept nogil:
    cdef ScopeLock list_guard
    list_guard.hold(log.list_guard)
    into[0] = log.holes


cdef void _copy_producers(PartitionLog* log,
                          unordered_map[int64_t, Producer]* into) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(log.guard)
    into[0] = log.producers.producers


cdef bint _is_held(Segment* segment) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(segment.guard)
    return segment.file.use_count() > 1


# ---- with the GIL ----

cdef class LogView:
    """A partition's log, as far as it can be looked at."""

    @property
    def log_start_offset(self):
        return self.log.get().log_start_offset.load()

    @property
    def log_end_offset(self):
        return self.log.get().log_end_offset.load()

    @property
    def durable_offset(self):
        return self.log.get().durable_offset.load()

    @property
    def high_watermark(self):
        return log_high_watermark(self.log.get())

    @property
    def last_stable_offset(self):
        return log_last_stable_offset(self.log.get())

    @property
    def leader_epoch(self):
        return self.log.get().leader_epoch.load()

    @property
    def failed(self):
        """Why this log takes no more appends; None while it does."""
        cdef int64_t code = self.log.get().failed.load()
        return None if code == OK else type(from_code(code, "")).__name__

    @property
    def waits_for_room(self):
        """It failed for want of room, or of descriptors: once there is some, what is durable can be
        opened again, and nothing speaks against the disk."""
        cdef int64_t code = self.log.get().failed.load()
        return code in (STORAGE_FULL, STORAGE_FULL_LATE, FILES_EXHAUSTED)

    @property
    def is_closed(self):
        return self.log.get().is_closed.load()

    @property
    def failed_text(self):
        """`failed`, with what the kernel said; "" while it takes appends."""
        if self.failed is None:
            return ""
        failure_note(b"", b"", <int>self.log.get().failed_errno.load())
        text = failure_text()
        failure_forget()
        return " ".join(filter(None, [self.failed, text]))

    @property
    def unflushed_age_ms(self):
        cdef int64_t oldest = self.log.get().oldest_unflushed_ns.load()
        return 0 if oldest == 0 else (monotonic_ns() - oldest) // 1000000

    @property
    def size(self):
        return sum(segment.size for segment in self.segments())

    def holes(self):
        """Ranges [first, end) that were set aside as damaged or are gone."""
        cdef vector[Hole] holes
        cdef size_t i
        with nogil:
            _copy_holes(self.log.get(), &holes)
        return [(holes[i].first_offset, holes[i].end_offset) for i in range(holes.size())]

    def segments(self):
        cdef vector[SegmentRef] segments
        cdef Segment* segment
        cdef size_t i
        with nogil:
            _copy_segments(self.log.get(), &segments)
        infos = []
        for i in range(segments.size()):
            segment = segments[i].get()
            infos.append(SegmentInfo(
                segment.base_offset, segment.end_offset.load(), segment.size.load(),
                segment.largest_timestamp.load() if segment.largest_is_known.load() else None,
                f"{self.directory}/{segment.base_offset:020d}.log",
            ))
        return infos

    def files_held(self):
        """How many of its files somebody reads or syncs just now."""
        cdef vector[SegmentRef] segments
        cdef size_t i
        cdef int held = 0
        with nogil:
            _copy_segments(self.log.get(), &segments)
            for i in range(segments.size()):
                held += _is_held(segments[i].get())
        return held

    def producers(self):
        cdef unordered_map[int64_t, Producer] producers
        cdef Producer producer
        with nogil:
            _copy_producers(self.log.get(), &producers)
        infos = []
        for entry in producers:
            producer = entry.second
            infos.append(ProducerInfo(
                entry.first, producer.epoch,
                producer.batches[producer.count - 1].last_sequence if producer.count else -1,
                producer.batches[producer.count - 1].last_offset if producer.count else -1,
                producer.txn_first_offset, producer.last_timestamp, producer.coordinator_epoch,
            ))
        return infos

    cdef _raise(self, int code, str doing):
        if code != OK:
            raise error_of(code, f"{self.name}: {doing}")
