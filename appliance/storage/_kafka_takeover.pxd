"""What a Kafka that died in the middle of a compaction left in a partition's directory."""

from libcpp.string cimport string
from libcpp.vector cimport vector

# Only for directories that our journal does not know. Finishes swaps that Kafka had decided on;
# `rubbish` keeps what may be removed. OK or a code.
cdef int finish_kafka_swaps(int directory_fd, vector[string]* rubbish) noexcept nogil
