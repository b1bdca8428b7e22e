"""A Produce request, from its frame."""

from appliance.native._bytes cimport Cursor
from appliance.network._connection cimport Produce
from appliance.network._topic_table cimport TopicTable

# All but `version` is read, behind the request header; `cursor.failed`: it is malformed. Its pieces
# stand in the frame.
cdef void produce_parse(TopicTable* known, Produce* request, Cursor* cursor) noexcept nogil
