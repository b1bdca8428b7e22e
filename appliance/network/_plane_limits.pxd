"""The limits of the data plane, from settings."""

from appliance.network._control_plane_inbox cimport Plane

# Before any thread of it runs; `config` is a NetworkConfig.
cdef int plane_set_limits(Plane* plane, config) except -1
