"""The Python face of what a listener's TLS is made of."""

from appliance.network._tls cimport TlsListenerRef

cdef class TlsContext:
    cdef TlsListenerRef listener   # shared with the data plane
