"""What a client is told: Kafka's error code and a sentence for each code of the core."""

from libc.stdint cimport int16_t

cdef int16_t kafka_error(int code) noexcept nogil
cdef const char* kafka_message(int code) noexcept nogil
