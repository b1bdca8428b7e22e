"""The check of what is to be appended; with its codes the append refuses."""

from libc.stdint cimport int64_t, uint8_t

from appliance.record._batch cimport BatchHeader

# Everything a client's batch must be: exactly one batch of `size` bytes, header, CRC, counts,
# flags, and, when uncompressed, a walk of every record (lengths, offset deltas 0,1,2...,
# timestamps). Fills `header` as far as it got. Where the records' largest timestamp is not what
# the header claims, header.max_timestamp is the records': give it to batch_stamp_max_timestamp
# before writing.
cdef int batch_check(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil

# The same for a batch of the broker's own: one with a producer id needs no sequence. Offsets that
# are committed within a transaction belong to its producer, which did not count them.
cdef int batch_check_own(const uint8_t* data, int64_t size, BatchHeader* header) noexcept nogil

# What a mirror may bring: the next batch in `data`, whole, as another log holds it. Records may be
# missing, even all of them; control batches, transactions and producers are refused: they mean
# something in their own cluster only.
cdef int batch_check_mirrored(
    const uint8_t* data, int64_t bytes_left, BatchHeader* header
) noexcept nogil

# Of an uncompressed batch (whole, checked): OK, or BATCH_INVALID when a record has no key, which a
# compacted topic refuses. A compressed batch must be decompressed first, as check() does.
cdef int batch_check_keys(const uint8_t* data, const BatchHeader* header) noexcept nogil
