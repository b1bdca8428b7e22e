"""The end of a scan: flaws are checked again, reported, repaired and marked."""

from appliance.repair._scan cimport Scan

# Checks flaws again, and repairs indexes, file names and the transaction index. `settled` has the
# confirmed flaws. The caller holds `maintenance`. OK or a code.
cdef int scan_settle(Scan* scan) noexcept nogil

# Makes holes of the damage that `scan_settle` confirmed, durable in the journal. OK or a code.
cdef int scan_mark(Scan* scan) noexcept nogil
