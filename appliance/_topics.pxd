"""Topics as the data plane knows them: a name, an id, the logs by partition."""

from libc.stdint cimport int32_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance._frame cimport Piece
from appliance._log cimport LogRef
from appliance._native cimport mutex

cdef enum:
    TOPIC_ID_SIZE = 16

# Constant once it is in a table; a change of a topic replaces it.
cdef cppclass Topic:
    string name
    string id                      # 16 bytes
    vector[LogRef] logs            # by partition; an empty one cannot be served
    bint is_internal               # read by clients, written by the broker alone

ctypedef shared_ptr[Topic] TopicRef

cdef cppclass TopicTable:
    mutex guard
    unordered_map[string, TopicRef] by_name    # guard
    unordered_map[string, TopicRef] by_id      # guard

cdef void topics_put(TopicTable* table, const TopicRef& topic) noexcept nogil
cdef void topics_remove(TopicTable* table, const string& name) noexcept nogil

# The topic, or one without logs that only carries the name or the id it was asked by.
cdef TopicRef topics_find(TopicTable* table, Piece key, bint is_id) noexcept nogil

cdef LogRef topic_log(const TopicRef& topic, int32_t partition) noexcept nogil
