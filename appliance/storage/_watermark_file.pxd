"""The durable offset of each log: noted before any response, and synced when no request waits for
it. Byte picture and rules in `_watermark_file.pyx`."""

from libc.stdint cimport int64_t, uint32_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, mutex

cdef enum:
    BOOT_SIZE = 36                 # of the kernel's boot id, as text

cdef struct Watermark:
    int64_t slot
    int64_t sequence               # of its last note
    int64_t offset                 # in it
    uint32_t seed                  # the CRC so far: this life, this name

cdef cppclass Watermarks:
    mutex sync_guard               # one sync of the file at a time; taken before `guard`
    mutex guard                    # over all but the next two; never held across a sync of the file
    atomic_bool is_on              # notes are taken
    atomic_bool is_dirty           # something was noted since the last sync began
    bint is_doomed                 # guard; the file has ended, and may still be on the disk
    int directory_fd
    int fd                         # 0: none
    int64_t file_size
    int64_t life                   # the journal's generation at this start
    int64_t header_sequence
    unordered_map[string, Watermark] marks
    vector[int64_t] free_slots
    int64_t slots                  # taken so far
    char[BOOT_SIZE] boot           # this kernel's

    # what the last life left
    bint was_found                 # its header can be read
    bint is_same_boot              # the page cache is still that life's, so every note is there
    int64_t found_life
    int64_t found_generation       # of the journal's last commit that was noted, and how many
    int64_t found_records          # records that generation had then
    unordered_map[string, int64_t] found         # guard; without what was taken back since

# Reads the notes of the last life; changes nothing.
cdef int watermarks_open(Watermarks* marks, int directory_fd) noexcept nogil

# Begins this life: from here on what the last one noted counts no more. The journal has it all.
cdef int watermarks_start(Watermarks* marks, int64_t life, int64_t records) noexcept nogil

# Notes that all records below `offset` are on disk; runs before any response.
cdef void watermarks_note(Watermarks* marks, const string& name, int64_t offset) noexcept nogil

# That the journal's commit reached the disk.
cdef void watermarks_note_journal(Watermarks* marks, int64_t generation,
                                  int64_t records) noexcept nogil

# Durably not that far any more (a truncation), or not known at all (-1: the log is going): before
# the journal says so. OK or a code.
cdef int watermarks_take_back(Watermarks* marks, const vector[string]* names,
                              int64_t offset) noexcept nogil

# Makes the notes so far durable.
cdef int watermarks_sync(Watermarks* marks) noexcept nogil

cdef void watermarks_close(Watermarks* marks) noexcept nogil

# The note of a log; -1: none.
cdef int64_t watermarks_find(Watermarks* marks, const string& name) noexcept nogil
