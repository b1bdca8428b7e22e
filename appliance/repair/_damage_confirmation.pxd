"""What follows from a scan: what was wrong is looked at once more, told, mended and marked."""

from appliance.repair._scan cimport Scan

# Of indexes, names and the transaction index what does not fit is mended; `told` says what was
# found. With maintenance held. OK or a code.
cdef int scan_settle(Scan* scan) noexcept nogil

# Makes holes of what `scan_settle` found damaged, durable in the journal. OK or a code.
cdef int scan_mark(Scan* scan) noexcept nogil
