"""Sends answers over a connection whose bytes OpenSSL encrypts."""

from appliance.native._native cimport RawBytes
from appliance.network._connection cimport Connection

# As `connection_send`. `stage` is the processor's, and empty from one call to the next.
cdef int tls_send(Connection* connection, RawBytes* stage) noexcept nogil
