from libc.stdint cimport uint8_t, uint32_t

# CRC-32C (Castagnoli) of `size` bytes, continuing from `crc` (0 to start). The fastest kernel that
# this processor has was chosen at import; see kernel_name().
cdef uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil
