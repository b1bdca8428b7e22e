"""Verifying one segment of an open log, from the disk, while it is read, written and shortened.

    step      reads on, and checks batch after batch: length, format, CRC-32C, offsets that follow,
              leader epoch; and what the index files say of each
    settle    looks once more at what was wrong, with maintenance held so that nothing moves, and
              tells it
    mark      after the ledger has it: damage is marked. A crash before that finds it again

what is wrong                                     what is done
------------------------------------------------  ------------------------------------------------
bytes that are no batch, or not the one that      a hole over its offsets, durable in the journal:
must follow                                       readers are told, what is behind stays readable
offsets that no batch holds                       a hole
the file is gone, nobody has it open              a hole over the whole segment
the file is gone or another one, and we have it   written anew from our descriptor: nothing is lost
open
offset or time index that does not fit            built anew
transaction index that is not as the log has it   put right; in the ledger where the log says not
                                                  all of it (`_txn_index_check.pyx`)
bytes behind the last batch                       told
all well at the second look                       told: the disk or the way from it is not well

A segment that retention, compaction or a deletion took meanwhile is no finding.
"""

from collections import namedtuple
from libc.stdint cimport int64_t

from appliance._log cimport Log
from appliance.native._codes cimport OK
from appliance.repair._damage_confirmation cimport scan_mark, scan_settle
from appliance.repair._scan cimport (
    BAD_CRC, BAD_END, BAD_EPOCH, BAD_FRAME, BAD_OFFSET, FILE_RESTORED, NO_BATCH, NO_FILE,
    NO_OFFSETS, NOT_AGAIN, UNSURE_TXN_INDEX, WRONG_INDEX, WRONG_TXN_INDEX, Flaw, Scan, scan_start,
    scan_step,
)
from appliance.storage._uncached_reader cimport disk_close

from appliance.errors import from_code

_WHAT = {
    BAD_END: ("damaged", "a record batch is longer than what is left of the file"),
    BAD_FRAME: ("damaged", "the bytes are no record batch"),
    BAD_CRC: ("damaged", "a record batch does not match its checksum"),
    BAD_OFFSET: ("damaged", "a record batch has other offsets than those that must follow"),
    BAD_EPOCH: ("damaged", "a record batch has another leader epoch than its offsets have"),
    NO_BATCH: ("lost", "no record batch holds these offsets"),
    NO_FILE: ("lost", "the segment's file is gone"),
    NO_OFFSETS: ("odd", "bytes that are no record batch, where no offset is missing"),
    NOT_AGAIN: ("odd", "bytes that were wrong when read first, and right at the second look"),
    FILE_RESTORED: ("restored", "the segment's file was gone or another one, and was written anew"),
    WRONG_INDEX: ("index", "the offset or time index did not fit, and was built anew"),
    WRONG_TXN_INDEX: ("index", "the transaction index did not fit, and was written anew"),
    UNSURE_TXN_INDEX: ("damaged", "the transaction index did not fit, and the log says not all of "
                       "it: aborted records before these offsets may be shown"),
}

ScrubFinding = namedtuple(
    "ScrubFinding", "what first_offset end_offset file position end_position text"
)


# ---- with the GIL ----

cdef class SegmentScan:
    """Verifies one segment. One thread at a time."""

    cdef Scan scan
    cdef Log log

    def __cinit__(self, Log log not None, int64_t base_offset):
        cdef int code
        self.log = log
        self.scan.log = log.log
        with nogil:
            code = scan_start(&self.scan, base_offset)
        self._check(code)

    def step(self, int64_t bytes_max):
        """Reads about so much on; whether there is more."""
        cdef int code
        with nogil:
            code = scan_step(&self.scan, bytes_max)
        self._check(code)
        return code == 1

    def mark(self):
        """Readers are told of the damage from here on, and after a restart."""
        cdef int code
        with nogil:
            code = scan_mark(&self.scan)
        self._check(code)

    def let_go(self):
        """Of its descriptor and of what was read: only `mark` is to follow, some day."""
        disk_close(&self.scan.disk)

    def settle(self):
        """What was found; of indexes and names after they were mended. Damage waits for `mark`."""
        cdef int code
        cdef size_t i
        with nogil:
            code = scan_settle(&self.scan)
        findings = [self._finding(&self.scan.settled[i]) for i in range(self.scan.settled.size())]
        self.scan.settled.clear()
        if code != OK:
            findings.append(self._failed(code))
        return findings

    @property
    def is_moot(self):
        """The segment is gone, or not durable yet."""
        return bool(self.scan.is_moot)

    @property
    def was_refused(self):
        """Whether the disk refused to read some of what `settle` found damaged."""
        return bool(self.scan.was_refused)

    @property
    def read_bytes(self):
        return self.scan.disk.read_bytes

    @property
    def position(self):
        return self.scan.position

    @property
    def held_bytes(self):
        """Of memory, for what was read."""
        return <int64_t>self.scan.disk.space.size()

    @property
    def is_direct(self):
        """Read past the page cache."""
        return bool(self.scan.disk.is_direct)

    cdef _finding(self, const Flaw* flaw):
        what, text = _WHAT[flaw.why]
        if flaw.is_refused:
            text += "; the disk refused to read it"
        return ScrubFinding(what, flaw.hole.first_offset, flaw.hole.end_offset, self._file(),
                            flaw.hole.position, flaw.hole.end_position, text)

    cdef _failed(self, int code):
        error = from_code(code, "what was found cannot be dealt with")
        return ScrubFinding("failed", self.scan.next_offset, self.scan.end_offset, self._file(),
                            -1, -1, str(error))

    cdef _file(self):
        return f"{self.log.name}/{self.scan.segment.get().base_offset:020d}.log"

    cdef _check(self, int code):
        if code < 0:
            raise from_code(code, f"{self._file()}: cannot be verified at position "
                                  f"{self.scan.position}")
