"""The limit of responses in memory."""

from appliance.network._connection cimport Connection

# Whether the connection is to be closed for them, which is then counted and told.
cdef bint responses_take_too_much(Connection* connection) noexcept nogil
