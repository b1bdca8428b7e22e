"""Appends to one log from Python, and waits until they are durable. The data plane appends without
this: `network/_produce.pyx`.
"""

from collections import namedtuple
from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._codes cimport BATCH_TORN, OFFSET_OUT_OF_RANGE, OK, STORAGE_FULL
from appliance.native._files cimport error_of, failure_forget
from appliance.native._native cimport ScopeLock, monotonic_ns
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_check_crc,
    batch_check_header, batch_load_header,
)
from appliance.record._batch_check cimport batch_check, batch_check_own
from appliance.storage._append cimport (
    ORIGIN_CLIENT, ORIGIN_COORDINATOR, ORIGIN_UNVERIFIED, AppendOptions, Appended as CAppended,
    log_append, log_append_mirrored,
)
from appliance.storage._commit_requests cimport Committer, committer_ask, committer_await
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._replicas cimport ROLE_ALONE
from appliance.storage._replication cimport log_await
from appliance.storage._storage cimport Storage, storage_now

from appliance.process.spoken import disk_full
from appliance.record import compression
from appliance.record._batch_check import check

Appended = namedtuple("Appended", "base_offset last_offset append_time duplicate")

ORIGINS = {
    "client": ORIGIN_CLIENT, "coordinator": ORIGIN_COORDINATOR, "unverified": ORIGIN_UNVERIFIED,
}


# ---- without the GIL ----

cdef int append_checked(Committer* committer, const LogRef& log, uint8_t* data, int64_t size,
                        const AppendOptions* options, CAppended* appended) noexcept nogil:
    cdef BatchHeader header
    cdef int code = _check(data, size, options.origin, &header)
    if code == OK:
        code = log_append(committer, log, data, &header, options, appended)
    return code


cdef int _check(const uint8_t* data, int64_t size, int origin, BatchHeader* header) noexcept nogil:
    """The coordinator may write control batches, and in a transaction batches without sequence,
    which no client may; all else is the same."""
    cdef int code
    if origin != ORIGIN_COORDINATOR:
        return batch_check(data, size, header)
    if size >= BATCH_HEADER_SIZE:
        batch_load_header(data, header)
        if header.attributes & ATTRIBUTE_CONTROL:
            code = batch_check_header(header, size)
            if code == OK and header.size != size:
                code = BATCH_TORN
            return code if code != OK else batch_check_crc(data, header)
    return batch_check_own(data, size, header)


cdef int _flush(Committer* committer, const LogRef& log, int64_t deadline_ns) noexcept nogil:
    cdef int64_t end_offset
    cdef int code = OFFSET_OUT_OF_RANGE
    # A truncation meanwhile takes the end away: then there is a new one.
    while code == OFFSET_OUT_OF_RANGE:
        end_offset = log.get().log_end_offset.load()
        if log.get().durable_offset.load() >= end_offset:
            return OK
        code = committer_await(committer, log, end_offset - 1, deadline_ns)
    return code


cdef int64_t _max_message_bytes(PartitionLog* log) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(log.guard)
    return log.settings.max_message_bytes


# ---- with the GIL ----

cdef class LogAppender(LogReader):
    """A partition's log, as far as it can be read and appended to."""

    @property
    def is_compacted(self):
        """Compressed batches of clients are decompressed here, to see that records have keys."""
        return self.log.get().is_compacted.load()

    def append(self, const unsigned char[::1] batch not None, *, object leader_epoch=None,
               str origin="client", object now_ms=None):
        """Validates, stamps and writes one record batch. Not durable yet: see await_durable."""
        cdef vector[uint8_t] copy
        cdef AppendOptions options
        _fill_options(&options, self.log.get(), leader_epoch, origin, now_ms)
        self._check_keys(batch, options.origin)
        with nogil:
            copy.assign(&batch[0], &batch[0] + batch.shape[0])
        return self._append(copy.data(), copy.size(), &options)

    def append_in_place(self, unsigned char[::1] batch not None, *, object leader_epoch=None,
                        str origin="client", object now_ms=None):
        """As append, but the caller's buffer itself is stamped: no copy."""
        cdef AppendOptions options
        _fill_options(&options, self.log.get(), leader_epoch, origin, now_ms)
        self._check_keys(batch, options.origin)
        return self._append(&batch[0], batch.shape[0], &options)

    cdef _append(self, uint8_t* batch, int64_t size, const AppendOptions* options):
        cdef CAppended appended
        cdef int code
        with nogil:
            failure_forget()
            code = append_checked(self.committer.get(), self.log, batch, size, options, &appended)
        if code != OK:
            raise error_of(code, self._refused(code, batch, size))
        return _appended(&appended)

    def append_mirrored(self, const unsigned char[::1] batches not None):
        """Writes batches of another log at the offsets that they have there: the first that is not
        here already begins at the log end. Not durable yet: see await_durable."""
        cdef vector[uint8_t] copy
        cdef CAppended appended
        cdef int code
        if batches.shape[0] == 0:
            raise error_of(BATCH_TORN, f"{self.name}: 0 bytes, at least one batch is wanted")
        with nogil:
            failure_forget()
            copy.assign(&batches[0], &batches[0] + batches.shape[0])
            code = log_append_mirrored(self.committer.get(), self.log, copy.data(), copy.size(),
                                       False, &appended)
        if code != OK:
            facts = self._refused(code, &batches[0], batches.shape[0])
            raise error_of(code, f"{facts}; the mirror's next batch goes on from there")
        return _appended(&appended)

    def append_durable(self, const unsigned char[::1] batch not None, *, object leader_epoch=None,
                       str origin="client", object now_ms=None, double timeout_s=30.0):
        election = self.log.get().replicas.epoch.load()
        appended = self.append(batch, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
        self.await_durable(appended.last_offset, timeout_s, election)
        return appended

    def await_durable(self, int64_t offset, double timeout_s=30.0, object election=None):
        """Returns once every record at or below `offset` is on disk, and on those of all replicas
        that must have it. `election`: that in which they were appended, if not the present one."""
        cdef int64_t deadline_ns = monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef int64_t c_election = self.log.get().replicas.epoch.load()
        cdef int code
        if election is not None:
            c_election = election
        with nogil:
            failure_forget()
            code = log_await(self.committer.get(), self.log, offset, c_election, deadline_ns)
        if code != OK:
            raise error_of(code, self._not_durable(offset, timeout_s))

    def flush(self, double timeout_s=30.0):
        """Everything appended so far is durable when this returns."""
        cdef int64_t deadline_ns = monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef int code
        with nogil:
            failure_forget()
            code = _flush(self.committer.get(), self.log, deadline_ns)
        if code != OK:
            self._raise(code, f"cannot be flushed; durable up to {self.durable_offset}, log end "
                              f"{self.log_end_offset}")

    def ask_commit(self):
        """Asks for a commit without waiting for it."""
        with nogil:
            committer_ask(self.committer.get(), self.log, 0)

    cdef _check_keys(self, const unsigned char[::1] batch, int origin):
        """What log_append does where it can: a compressed batch must be decompressed for it."""
        cdef BatchHeader header
        cdef int64_t most
        if origin == ORIGIN_COORDINATOR or not self.log.get().is_compacted.load():
            return
        if batch.shape[0] >= BATCH_HEADER_SIZE:
            batch_load_header(&batch[0], &header)
            if header.attributes & ATTRIBUTE_CODEC:
                with nogil:
                    most = _max_message_bytes(self.log.get())
                check(batch, keys_required=True, size_max=compression.RATIO_MAX * most)

    cdef str _refused(self, int code, const uint8_t* batch, int64_t size):
        cdef Storage* storage = self.log.get().storage.get()
        cdef BatchHeader header
        if code == STORAGE_FULL:  # nothing is wrong with the batch
            return f"{self.name}: {disk_full(storage.free_bytes.load(), storage.low_water_bytes)}"
        facts = f"{self.name}: batch of {size} bytes"
        if size >= BATCH_HEADER_SIZE:
            batch_load_header(batch, &header)
            facts += (f" (length field {header.size - 12}, magic {header.magic}, "
                      f"{header.records_count} records, "
                      f"producer {header.producer_id} epoch {header.producer_epoch} "
                      f"sequence {header.base_sequence})")
        return f"{facts} refused at log end {self.log_end_offset}"

    cdef str _not_durable(self, int64_t offset, double timeout_s):
        facts = (f"{self.name}: offset {offset} is not durable after {timeout_s:g} s; durable up "
                 f"to {self.durable_offset}, log end {self.log_end_offset}")
        if self.log.get().role.load() == ROLE_ALONE:
            return facts
        return f"{facts}, at all replicas that must have it up to {self.high_watermark}"


cdef int _fill_options(AppendOptions* options, PartitionLog* log, object leader_epoch, str origin,
                       object now_ms) except -1:
    options.origin = ORIGINS[origin]
    options.leader_epoch = -1 if leader_epoch is None else leader_epoch
    options.is_awaited = False
    if now_ms is None:
        storage_now(log.storage.get(), &options.earliest_ms, &options.latest_ms)
    else:
        options.earliest_ms = options.latest_ms = now_ms
    return 0


cdef _appended(const CAppended* appended):
    return Appended(appended.base_offset, appended.last_offset, appended.append_time,
                    bool(appended.duplicate))
