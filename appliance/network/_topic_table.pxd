"""Topics as the data plane knows them: a name, an id, the logs by partition."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.native._native cimport CounterLines, mutex
from appliance.protocol._frame cimport Piece, put_raw, put_string, read_piece, read_string
from appliance.storage._partition_log cimport LogRef

cdef enum:
    TOPIC_ID_SIZE = 16
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    UNKNOWN_TOPIC_ID = 100

# What is counted of a topic, by thread. What comes in is counted in its logs, under their guards.
cdef enum TopicCount:
    TOPIC_BYTES_OUT = 0
    TOPIC_PRODUCES_FAILED = 1      # batches that were refused
    TOPIC_FETCHES_FAILED = 2       # partitions of a fetch that got an error
    TOPIC_COUNTS = 3

# Who leads a partition, by the last election that is known. Epoch -1: nobody told.
cdef struct TopicLeader:
    int32_t node                   # -1: nobody
    int32_t epoch

# Constant once it is in a table; a change of a topic replaces it.
cdef cppclass Topic:
    string name
    string id                      # 16 bytes
    int64_t serial                 # no other has had it; 0: it is in no table
    vector[LogRef] logs            # by partition; an empty one cannot be served
    vector[TopicLeader] leaders    # by partition, of those that other brokers have and this one
                                   # has not; empty: it has all
    bint is_internal               # read by clients, written by the broker alone
    string mirror_source           # the mirror that writes it alone; empty: anybody may
    shared_ptr[CounterLines] counts  # goes on when the topic is replaced; empty: nothing is known

ctypedef shared_ptr[Topic] TopicRef

cdef cppclass TopicTable:
    mutex guard
    unordered_map[string, TopicRef] by_name    # guard
    unordered_map[string, TopicRef] by_id      # guard
    int64_t serials                # guard; the last one

cdef void topics_put(TopicTable* table, const TopicRef& topic) noexcept nogil
cdef void topics_remove(TopicTable* table, const string& name) noexcept nogil

# The topic, or one without logs that only carries the name or the id it was asked by.
cdef TopicRef topics_find(TopicTable* table, Piece key, bint is_id) noexcept nogil
# As it is now: without logs when it is gone, or another one has its name.
cdef TopicRef topic_now(TopicTable* table, const TopicRef& before) noexcept nogil

# Counts for a thread, by its number.
cdef void topic_count(const TopicRef& topic, int thread, int what, int64_t more) noexcept nogil
# What was counted of a topic; -1: there is none.
cdef int64_t topics_counted(TopicTable* table, const string& name, int what) noexcept nogil

cdef LogRef topic_log(const TopicRef& topic, int32_t partition) noexcept nogil

# Kafka's error for a partition that has no log here: the id is unknown, or the partition of it is,
# or other brokers have it, or it is there and not open.
cdef int16_t topic_refusal(const TopicRef& topic, int32_t partition, bint is_by_id) noexcept nogil

# Whom to name where this broker does not lead.
cdef TopicLeader topic_leader(const TopicRef& topic, int32_t partition,
                              const LogRef& log) noexcept nogil
# The tagged field CurrentLeader, whose number is the API's own.
cdef void put_leader(vector[uint8_t]* out, uint32_t tag, TopicLeader leader) noexcept nogil


cdef inline Piece read_topic(Cursor* cursor, bint is_by_id, bint is_flexible) noexcept nogil:
    return read_piece(cursor, TOPIC_ID_SIZE) if is_by_id else read_string(cursor, is_flexible)


cdef inline void put_topic(vector[uint8_t]* out, const Topic* topic, bint is_by_id,
                           bint is_flexible) noexcept nogil:
    if is_by_id:
        put_raw(out, topic.id.data(), TOPIC_ID_SIZE)
    else:
        put_string(out, topic.name.data(), topic.name.size(), is_flexible)
