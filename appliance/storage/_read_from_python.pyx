"""Reads of one log from Python: by offset, by timestamp, by epoch. The data plane reads without
this: `network/_fetch.pyx`, `network/_list_offsets.pyx`.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_CORRUPT, BATCH_TORN, OK
from appliance.native._files cimport failure_forget, read_whole
from appliance.record._batch cimport (
    BATCH_HEADER_SIZE, BatchHeader, batch_check_crc, batch_check_header, batch_load_header,
)
from appliance.storage._index cimport AbortedTxn
from appliance.storage._leader_epochs cimport epochs_end_of
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._read cimport (
    READ_END, READ_STABLE, READ_VISIBLE, Slice, log_aborted, log_find_time, log_note_fault,
    log_note_fault_at, log_read,
)

from appliance.errors import ApplianceError
from appliance.record._batch import headers, records

_LIMITS = {"visible": READ_VISIBLE, "end": READ_END, "stable": READ_STABLE}


# ---- without the GIL ----

cdef int _read(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
               vector[uint8_t]* into) noexcept nogil:
    """Whole batches only: the slice may end within one."""
    cdef Slice slice
    cdef BatchHeader header
    cdef int64_t at = 0, got
    cdef int code = log_read(log, offset, max_bytes, limit, &slice)
    if code != OK or slice.size == 0:
        return code
    got = _load(log, &slice, offset, into)
    if got < 0:
        return <int>got
    while at + BATCH_HEADER_SIZE <= got:
        batch_load_header(into.data() + at, &header)
        if batch_check_header(&header, got - at) != OK:
            break
        at += header.size
    into.resize(at)
    # A file that was cut meanwhile: to answer nothing would say that the log ends here.
    return OK if at > 0 else BATCH_TORN


cdef int _read_for_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                        vector[uint8_t]* into) noexcept nogil:
    cdef Slice slice
    cdef int64_t got
    cdef int code = log_find_time(log, timestamp, from_offset, limit, &slice)
    if code != OK or slice.size == 0:
        return code
    got = _load(log, &slice, slice.segment_base, into)
    return OK if got == slice.size else _fault_of(got)


cdef int64_t _load(PartitionLog* log, const Slice* slice, int64_t offset,
                   vector[uint8_t]* into) noexcept nogil:
    """A count, or a code. Less than the segment has is noted as a fault at `offset`."""
    cdef int64_t got
    into.resize(slice.size)
    got = read_whole(slice.file.get().fd, into.data(), slice.size, slice.position)
    if got < slice.size:
        log_note_fault(log, slice.segment_base, offset, _fault_of(got))
    return got


cdef int _fault_of(int64_t got) noexcept nogil:
    """Of a read that gave fewer bytes than the segment has."""
    return <int>min(got, <int64_t>BATCH_TORN)


cdef bint _are_whole(const uint8_t* data, int64_t size) noexcept nogil:
    cdef BatchHeader header
    cdef int64_t at = 0
    while at + BATCH_HEADER_SIZE <= size:
        batch_load_header(data + at, &header)
        if batch_check_header(&header, size - at) != OK:
            return False
        if batch_check_crc(data + at, &header) != OK:
            return False
        at += header.size
    return at == size


# ---- with the GIL ----

cdef class FileSlice:
    """Bytes of a segment that stay readable for as long as this object lives, deleted or not."""

    @property
    def fd(self):
        return self.file.get().fd if self.file.get() != NULL else -1


cdef class LogReader(LogView):
    """A partition's log, as far as it can be read."""

    def read(self, int64_t offset, int64_t max_bytes=1 << 20, str up_to="visible"):
        """Whole batches from the one that holds `offset`, at least that one; b"" at the limit."""
        cdef vector[uint8_t] data
        cdef int limit = _LIMITS[up_to]
        cdef int code
        with nogil:
            failure_forget()
            code = _read(self.log.get(), offset, max_bytes, limit, &data)
        self._raise_read(code, offset)
        return PyBytes_FromStringAndSize(<const char*>data.data(), data.size())

    def slice(self, int64_t offset, int64_t max_bytes=1 << 20, str up_to="visible"):
        """The same bytes as a range of a file, for sendfile; it may end within a batch."""
        cdef FileSlice result = FileSlice.__new__(FileSlice)
        cdef Slice slice
        cdef int limit = _LIMITS[up_to]
        cdef int code
        with nogil:
            failure_forget()
            code = log_read(self.log.get(), offset, max_bytes, limit, &slice)
        self._raise_read(code, offset)
        result.file = slice.file
        result.position = slice.position
        result.size = slice.size
        return result

    cdef _raise_read(self, int code, int64_t offset):
        if code != OK:
            self._raise(code, f"cannot read at offset {offset}; log start "
                              f"{self.log_start_offset}, log end {self.log_end_offset}")

    def batch_for_timestamp(self, int64_t timestamp_ms, int64_t from_offset=0, str up_to="visible"):
        """The first batch that ends at or after `from_offset` and has a record at or after
        `timestamp_ms`; b"" when there is none."""
        cdef vector[uint8_t] data
        cdef int limit = _LIMITS[up_to]
        cdef int code
        with nogil:
            failure_forget()
            code = _read_for_time(self.log.get(), timestamp_ms, from_offset, limit, &data)
        self._raise(code, f"cannot search for timestamp {timestamp_ms}")
        return PyBytes_FromStringAndSize(<const char*>data.data(), data.size())

    def offset_for_timestamp(self, int64_t timestamp_ms, str up_to="visible"):
        """(offset, timestamp) of the first record at or after `timestamp_ms`, or None."""
        start = self.log_start_offset
        while True:
            data = self.batch_for_timestamp(timestamp_ms, start, up_to)
            if not data:
                return None
            batch = headers(data)[0]
            if batch.is_control:
                # Kafka's answer too: a consumer that starts at a marker skips it.
                return batch.base_offset, batch.max_timestamp
            for record in self._records(data, batch.base_offset):
                if record.timestamp >= timestamp_ms and record.offset >= start:
                    return record.offset, record.timestamp
            start = batch.last_offset + 1

    cdef _records(self, data, int64_t offset):
        try:
            return records(data)
        except ApplianceError:
            self.note_damaged(offset, data)
            raise

    def note_damaged(self, int64_t offset, const unsigned char[::1] batches not None):
        """For who cannot make sense of batches that were read there: where they are not what was
        written, health tells so, and the segment is verified. What `read` refuses is noted already.
        A client may have written records that nobody can read: then the disk is well."""
        with nogil:
            if batches.shape[0] == 0 or not _are_whole(&batches[0], batches.shape[0]):
                log_note_fault_at(self.log.get(), offset, BATCH_CORRUPT)

    def aborted_transactions(self, int64_t first_offset, int64_t end_offset):
        """(producer id, first offset, offset of the abort marker) of those that touch the range."""
        cdef vector[AbortedTxn] aborted
        cdef size_t i
        with nogil:
            log_aborted(self.log.get(), first_offset, end_offset, &aborted)
        return [(aborted[i].producer_id, aborted[i].first_offset, aborted[i].last_offset)
                for i in range(aborted.size())]

    def end_offset_for_epoch(self, int32_t epoch):
        cdef int32_t last
        cdef int64_t end_offset
        with nogil:
            epochs_end_of(self.log.get(), epoch, &last, &end_offset)
        return last, end_offset
