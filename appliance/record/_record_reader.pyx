"""Messages out of fetched batches, each made when it is asked for: nothing is made per record but
what the application sees.

Batches are checked (structure and CRC) when a reader is made, which is the fetching thread's work,
and decompressed one at a time when their first message is asked for.

A message is done with when the one behind it is asked for. That is what at least once means to an
offset that is committed in the background, while somebody may still work on the last message.
"""

import cython
from libc.stdint cimport int64_t, uint8_t

from appliance.native._codes cimport OK
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, append_time, batch_check_header,
    batch_load_header, open_checked, scan_batches,
)
from appliance.record._records cimport (
    RecordView, decode_headers, field_bytes, record_next, record_timestamp,
)

from appliance import errors
from appliance.record import compression


# ---- without the GIL ----

cdef int64_t _pass_whole(const uint8_t* data, int64_t size, int64_t* end_offset) noexcept nogil:
    """Bytes of the whole batches at the begin, and the offset behind the last of them."""
    cdef BatchHeader header
    cdef int64_t position = 0
    while size - position >= BATCH_HEADER_SIZE:
        batch_load_header(data + position, &header)
        if batch_check_header(&header, size - position) != OK:
            break
        end_offset[0] = header.base_offset + header.last_offset_delta + 1
        position += header.size
    return position


# ---- with the GIL ----

@cython.freelist(256)  # kept for the next ones: most applications hold few at a time
@cython.no_gc
cdef class Message:
    """One record of a topic. Holds nothing that could refer back to it, so Python's cycle collector
    need not look at millions of them."""

    def __repr__(self):
        return (
            f"Message({self.topic} {self.partition} offset={self.offset} "
            f"timestamp={self.timestamp} key={self.key!r} value={self.value!r} "
            f"headers={self.headers!r})"
        )


cdef class ConsumerPosition:
    def __init__(self, int64_t offset):
        self.next_offset = self.done = offset


def whole_batches(const unsigned char[::1] data not None, int64_t end_offset):
    """Their bytes, and the offset behind them: `end_offset`, where there are none. Sums are left
    to whoever reads them."""
    cdef int64_t size = 0
    if data.shape[0]:
        size = _pass_whole(&data[0], data.shape[0], &end_offset)
    return size, end_offset


cdef class RecordReader:
    """The messages of the whole batches in `data`, from the offset on at which `progress` is.
    `end_offset`: batches behind those given were looked at too, and left out."""

    def __init__(
        self, const unsigned char[::1] data not None, topic, partition,
        ConsumerPosition progress not None,
        *, int64_t end_offset=-1, int64_t size_max=compression.SIZE_MAX,
    ):
        cdef BatchHeader header
        self.data, self.topic, self.partition = data, topic, partition
        self.progress, self.size_max = progress, size_max
        self.batches = scan_batches(data, True)
        self.end_offset = progress.next_offset
        for header in self.batches:
            self.end_offset = header.base_offset + header.last_offset_delta + 1
            self.size += header.size
        self.end_offset = max(self.end_offset, end_offset)

    def __iter__(self):
        return self

    def __next__(self):
        message = self.read()
        if message is None:
            raise StopIteration
        return message

    cdef object read(self):
        """None at the end."""
        cdef RecordView view
        cdef Message message
        cdef ConsumerPosition progress = self.progress
        cdef int64_t offset
        while not progress.is_over:
            if self.left == 0:
                if not _open_next(self):
                    return None
                continue
            self.left -= 1
            if record_next(&self.payload.records, &view) != OK:
                raise errors.BatchCorrupt(f"{self.topic} {self.partition}: changed while read")
            offset = self.base_offset + view.offset_delta
            if offset < progress.next_offset:
                continue  # a fetch answers with whole batches
            message = Message.__new__(Message)
            message.topic, message.partition, message.offset = self.topic, self.partition, offset
            message.timestamp = record_timestamp(&self.payload.claim, &view, self.append_time)
            message.key = field_bytes(view.key, view.key_size)
            message.value = field_bytes(view.value, view.value_size)
            message.headers = decode_headers(&view) if view.headers_count else ()
            progress.done, progress.next_offset = offset, offset + 1
            return message
        return None


cdef bint _open_next(RecordReader reader) except -1:
    """The next batch with records for applications; False when there is none left."""
    cdef BatchHeader header
    cdef ConsumerPosition progress = reader.progress
    while reader.index < reader.batches.size():
        header = reader.batches[reader.index]
        has_records = header.records_count and not header.attributes & ATTRIBUTE_CONTROL
        if has_records:
            # one that cannot be opened stays the next: it is not passed over by asking again
            reader.payload = open_checked(reader.data, reader.position, &header, reader.size_max)
            reader.base_offset, reader.append_time = header.base_offset, append_time(&header)
            reader.left = header.records_count
        reader.index += 1
        reader.position += header.size
        if has_records:
            return True
    reader.payload = None
    if not progress.is_over:
        # with it what stands behind the last message: markers, and what compaction took
        progress.next_offset = max(progress.next_offset, reader.end_offset)
        progress.done = progress.next_offset
    return False


cdef class MessageIterator:
    """Messages of one reader after the other. `next_reader`, a subclass's, waits for it, or raises
    StopIteration."""

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            if self.reader is not None:
                message = self.reader.read()
                if message is not None:
                    return message
                self.reader = None
            self.reader = self.next_reader()

    def next_reader(self):
        raise NotImplementedError
