"""Recovery points and whatever else recovery must believe: one CRC'd journal for all partitions.

One write and one sync make the points of any number of partitions durable. Two preallocated files
take turns, so that it goes on working on a full disk. Byte picture and rules are in
`_checkpoint_journal.pyx`.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport mutex

cdef struct EpochEntry:
    int32_t epoch
    int64_t start_offset

# A damaged or lost range below the durable offset: never served, and forgotten only with the
# segment that it is in.
cdef struct Hole:
    int64_t first_offset
    int64_t end_offset
    int64_t position               # of the damaged bytes in their segment; -1: none are there
    int64_t end_position
    bint is_skipped                # an operator lets readers pass

cdef inline Hole hole_new(int64_t first_offset, int64_t end_offset) noexcept nogil:
    cdef Hole hole
    hole.first_offset, hole.end_offset = first_offset, end_offset
    hole.position = hole.end_position = -1
    hole.is_skipped = False
    return hole

# What recovery knows of a partition without reading its log.
cdef cppclass Checkpoint:
    int64_t recovery_offset        # everything below is durable and checked
    int64_t segment_base           # the segment that holds it, and where
    int64_t position
    int64_t log_start_offset
    int64_t end_limit              # a truncation in progress: nothing from it on comes back
    int64_t swap_base              # a compaction swap in progress: `swap_base.swap` replaces every
    int64_t swap_end               # segment with a base in [swap_base, swap_end); -1: none
    int64_t cleaned_offset         # compaction has seen everything below
    int64_t gaps_end               # below it offsets may be missing: compaction was there
    int64_t created_ms             # of that segment: first append,
    int64_t first_timestamp        # first batch's timestamp,
    int64_t largest_timestamp      # largest timestamp
    int64_t largest_timestamp_offset
    int32_t leader_epoch           # current
    vector[EpochEntry] epochs
    vector[Hole] holes
    vector[int64_t] bases          # of the segments before segment_base
    vector[uint8_t] producers      # producers_store() at recovery_offset

    inline void __init__() noexcept nogil:
        this.recovery_offset = this.segment_base = this.log_start_offset = -1
        this.position = this.cleaned_offset = this.created_ms = 0
        this.end_limit = this.gaps_end = INT64_MAX
        this.swap_base = this.swap_end = -1
        this.first_timestamp = this.largest_timestamp = this.largest_timestamp_offset = -1
        this.leader_epoch = 0

cdef cppclass Journal:
    mutex guard                    # over all of it, also across its syncs
    int directory_fd
    int[2] fds
    int64_t[2] sizes               # preallocated
    int active                     # index of the file being appended to
    int64_t position               # of the next record in it
    int64_t generation
    int64_t sequence
    unordered_map[string, vector[uint8_t]] live      # partition directory -> its latest record
    vector[uint8_t] pending        # framed, not yet written
    int failed                     # the code of a failed sync: nothing is written any more
    bint was_clean                 # the last life ended with a clean stop
    int64_t durable_generation     # what the last commit, or the last life, made durable:
    int64_t durable_records        # so many records of that generation
    bint was_found                 # a complete generation

# Reads what the last life left; writes nothing.
cdef int journal_open(Journal* journal, int directory_fd) noexcept nogil

# Begins this life: a fresh generation holding the live records. From here on an end without
# journal_close is an unclean one.
cdef int journal_start(Journal* journal) noexcept nogil

cdef bint journal_find(Journal* journal, const string& name, Checkpoint* checkpoint) noexcept nogil
cdef bint journal_knows(Journal* journal, const string& name) noexcept nogil
cdef void journal_put(Journal* journal, const string& name,
                      const Checkpoint* checkpoint) noexcept nogil
cdef void journal_remove(Journal* journal, const string& name) noexcept nogil

# How far the journal itself is durable.
cdef void journal_reached(Journal* journal, int64_t* generation, int64_t* records) noexcept nogil

# Makes everything put so far durable.
cdef int journal_commit(Journal* journal) noexcept nogil

# A commit that succeeded is not believed: as after a sync that failed, none succeeds any more.
cdef void journal_fail(Journal* journal, int code) noexcept nogil

# The clean-stop record; the caller has made every log durable and put its last checkpoint.
cdef int journal_close(Journal* journal, bint cleanly) noexcept nogil

cdef int64_t checkpoint_size(const Checkpoint* checkpoint) noexcept nogil
