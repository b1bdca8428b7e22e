"""What the threads of the data plane share: limits, topics, counters, requests to pass on."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance._committer cimport CommitterRef
from appliance._native cimport atomic_bool, atomic_i64, mutex
from appliance._topics cimport TopicTable

# Settings of the data plane; names and reasons in `config.py`.
cdef struct Limits:
    int32_t processors
    int64_t request_bytes
    int64_t control_bytes          # of one that is passed on
    int64_t queued_bytes
    int64_t connections
    int64_t connections_per_ip
    int64_t requests_per_connection
    int64_t idle_ns
    int64_t frame_ns
    int64_t send_ns
    int64_t fetch_bytes
    int64_t fetch_partitions
    int64_t sendfile_bytes

# A request for the control plane.
cdef cppclass Punt:
    int64_t connection
    int64_t slot
    string peer
    vector[uint8_t] frame

cdef cppclass Counters:
    atomic_i64 accepted
    atomic_i64 refused             # above a limit of connections
    atomic_i64 open
    atomic_i64 closed_idle
    atomic_i64 closed_frame        # a frame that did not arrive, or is not one
    atomic_i64 closed_slow         # did not take its answers
    atomic_i64 closed_malformed
    atomic_i64 produce_requests
    atomic_i64 fetch_requests
    atomic_i64 punted_requests
    atomic_i64 bytes_in
    atomic_i64 bytes_out
    atomic_i64 produced_bytes
    atomic_i64 fetched_bytes

cdef cppclass Plane:
    Limits limits                  # constant, as is the committer
    CommitterRef committer
    TopicTable topics
    Counters counters
    atomic_i64 queued_bytes        # room promised to frames that are arriving
    atomic_i64 serial              # of connections and of fetch sessions
    atomic_bool is_draining
    mutex guard
    vector[Punt] punts             # guard
    bint is_signalled              # guard
    int punt_fd                    # readable while `punts` has something

cdef void punt_put(Plane* plane, int64_t connection, int64_t slot, const string& peer,
                   const uint8_t* frame, int64_t size) noexcept nogil
cdef void punts_take(Plane* plane, vector[Punt]* into) noexcept nogil
