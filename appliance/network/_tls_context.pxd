"""The Python face of what a listener's TLS is made of."""

from appliance.native._openssl cimport CMethod
from appliance.network._tls cimport TlsListenerRef

cdef class TlsContext:
    cdef TlsListenerRef listener   # shared with the data plane, or with what connects by it
    cdef _use(self, rules, own, trust, const CMethod* method)
