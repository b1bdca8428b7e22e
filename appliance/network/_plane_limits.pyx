"""Takes the limits of the data plane from settings; `config/network.py` has their reasons."""

from libc.stdint cimport int64_t

from appliance.config.setting import limit_of

from appliance.network._connection_quota cimport connection_quota_set
from appliance.network._control_plane_inbox cimport Plane
from appliance.network._quota cimport quotas_init
from appliance.network._rights cimport rights_init


# ---- with the GIL ----

cdef int plane_set_limits(Plane* plane, config) except -1:
    plane.limits.processors = config.network_threads
    plane.limits.request_bytes = config.request_max_bytes
    plane.limits.control_bytes = config.control_max_bytes
    plane.limits.queued_bytes = config.queued_max_bytes
    plane.limits.connections = config.max_connections
    plane.limits.connections_per_ip = config.max_connections_per_ip
    plane.limits.requests_per_connection = config.requests_per_connection
    plane.limits.passed_per_connection = config.control_requests_per_connection
    plane.limits.held_bytes = config.held_max_bytes
    plane.limits.frame_rate = config.frame_min_bytes_per_second
    plane.limits.fetch_partitions_all = config.fetch_max_partitions_all
    plane.limits.idle_ns = config.idle_timeout_ms * 1000000
    plane.limits.frame_ns = config.frame_timeout_ms * 1000000
    plane.limits.send_ns = config.send_timeout_ms * 1000000
    plane.limits.fetch_bytes = config.fetch_max_bytes
    plane.limits.fetch_partitions = config.fetch_max_partitions
    plane.limits.sendfile_bytes = config.sendfile_min_bytes
    plane.limits.cold_readers = config.disk_threads
    plane.limits.handshakes = config.max_handshakes
    plane.limits.handshakes_per_ip = config.max_handshakes_per_ip
    plane.limits.handshake_ns = config.handshake_timeout_ms * 1000000
    plane.limits.login_bytes = config.login_max_bytes
    plane.limits.login_ns = config.login_timeout_ms * 1000000
    connection_quota_set(&plane.connections, limit_of(config.connections_taken_max),
                         limit_of(config.connection_creation_rate_max))
    rights_init(&plane.rights, config.decisions_max)
    quotas_init(&plane.quotas, config.quota_window_s * <int64_t>1000000000)
    return 0
