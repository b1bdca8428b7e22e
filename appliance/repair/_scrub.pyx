"""Verifying one segment of an open log, from the disk, while it is read, written and shortened.

    step      reads on, and checks batch after batch: length, format, CRC-32C, offsets, leader
              epoch, and the entries of the index files
    settle    checks flaws again, with `maintenance` held so that no segment changes, and reports
              them
    mark      marks damage after it is in the ledger. After a crash the next scrub detects it again

flaw                                              result
------------------------------------------------  ------------------------------------------------
bytes that are no batch, or a batch with          a hole over its offsets, durable in the journal:
unexpected offsets                                readers get an error, later offsets stay readable
offsets without a batch                           a hole
the file is gone, and no descriptor is open       a hole over the whole segment
the file is gone or replaced, and we have it      written again from our descriptor: nothing is lost
open
wrong offset or time index                        rebuilt
wrong transaction index                           restored; in the ledger if the log does not have
                                                  all of its entries (`_txn_index_check.pyx`)
bytes after the last batch                        reported
good at the second check                          reported: the disk, cable or controller is faulty

A segment that retention, compaction or a deletion removed meanwhile is not a finding.
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
    BAD_END: ("damaged", "a record batch is longer than the rest of the file"),
    BAD_FRAME: ("damaged", "the bytes are no record batch"),
    BAD_CRC: ("damaged", "a record batch does not match its checksum"),
    BAD_OFFSET: ("damaged", "a record batch does not have the expected offsets"),
    BAD_EPOCH: ("damaged", "a record batch does not have the leader epoch of its offsets"),
    NO_BATCH: ("lost", "no record batch holds these offsets"),
    NO_FILE: ("lost", "the segment's file is gone"),
    NO_OFFSETS: ("odd", "bytes that are no record batch, although no offset is missing"),
    NOT_AGAIN: ("odd", "bytes that were wrong at the first read and right at the second"),
    FILE_RESTORED: ("restored", "the segment's file was gone or replaced, and was restored"),
    WRONG_INDEX: ("index", "the offset or time index was wrong, and was rebuilt"),
    WRONG_TXN_INDEX: ("index", "the transaction index was wrong, and was rewritten"),
    UNSURE_TXN_INDEX: ("damaged", "the transaction index was wrong, and the log does not have all "
                       "of its entries: aborted records before these offsets may be shown"),
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
        """Reads on, about this many bytes. Returns whether there is more."""
        cdef int code
        with nogil:
            code = scan_step(&self.scan, bytes_max)
        self._check(code)
        return code == 1

    def mark(self):
        """Marks the damage: readers get an error from now on, and after a restart."""
        cdef int code
        with nogil:
            code = scan_mark(&self.scan)
        self._check(code)

    def let_go(self):
        """Releases the descriptor and the memory; only `mark` may follow."""
        disk_close(&self.scan.disk)

    def settle(self):
        """Returns the findings. Indexes and names are repaired already; damage waits for `mark`."""
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
        """The memory for read bytes."""
        return <int64_t>self.scan.disk.space.size()

    @property
    def is_direct(self):
        """Whether it reads past the page cache."""
        return bool(self.scan.disk.is_direct)

    cdef _finding(self, const Flaw* flaw):
        what, text = _WHAT[flaw.why]
        if flaw.is_refused:
            text += "; the disk refused to read it"
        return ScrubFinding(what, flaw.hole.first_offset, flaw.hole.end_offset, self._file(),
                            flaw.hole.position, flaw.hole.end_position, text)

    cdef _failed(self, int code):
        error = from_code(code, "the findings cannot be settled")
        return ScrubFinding("failed", self.scan.next_offset, self.scan.end_offset, self._file(),
                            -1, -1, str(error))

    cdef _file(self):
        return f"{self.log.name}/{self.scan.segment.get().base_offset:020d}.log"

    cdef _check(self, int code):
        if code < 0:
            raise from_code(code, f"{self._file()}: cannot be verified at position "
                                  f"{self.scan.position}")
