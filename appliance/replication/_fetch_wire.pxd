"""Fetch as a follower speaks it: version 17, with a session, topics by id, the follower's life."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.protocol._frame cimport Piece

cdef enum:
    FRAME_HEAD_BYTES = 8           # of an answer: its length, and the correlation id
    TOPIC_ID_SIZE = 16

# A partition as a request names it, or, by id and number alone, forgets it.
cdef cppclass Named:
    string topic_id
    int32_t partition
    int32_t leader_epoch
    int32_t last_epoch             # of the last record before `offset`; -1: there is none
    int64_t offset
    int64_t log_start_offset

cdef cppclass FetchRequest:
    int32_t correlation_id
    int32_t node                   # who asks, in which life
    int64_t life
    int32_t wait_ms
    int32_t max_bytes
    int32_t partition_bytes
    int32_t session_id             # 0: none
    int32_t session_epoch
    vector[Named] named            # those of a topic stand together
    vector[Named] forgotten

cdef struct AnswerHead:
    int16_t error
    int32_t session_id
    int64_t topics

cdef struct AnsweredTopic:
    Piece id
    int64_t partitions

cdef struct Answered:
    int32_t partition
    int16_t error
    int64_t watermark
    int64_t log_start_offset
    int32_t diverging_epoch        # -1: what the follower has is what the leader has
    int64_t diverging_end
    int32_t leader                 # of whom it knows; -1: nobody
    int32_t leader_epoch
    Piece records

# The whole frame, into `out`.
cdef void fetch_put_request(vector[uint8_t]* out, const FetchRequest* request) noexcept nogil

# In the order in which they stand; `cursor` fails where the answer is none. It begins behind the
# correlation id.
cdef AnswerHead fetch_read_head(Cursor* cursor) noexcept nogil
cdef AnsweredTopic fetch_read_topic(Cursor* cursor) noexcept nogil
cdef void fetch_read_partition(Cursor* cursor, Answered* into) noexcept nogil
cdef void fetch_end_topic(Cursor* cursor) noexcept nogil
