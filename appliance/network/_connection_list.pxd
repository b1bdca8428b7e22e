"""What others see of a processor: its connections, when they ask for them."""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._native cimport condition, mutex
from appliance.network._connection cimport Connection
from appliance.storage._partition_waits cimport Inbox

# A connection as it is shown to people.
cdef cppclass ConnectionFacts:
    int64_t id
    string peer
    string client_id
    string principal               # empty: it has not logged in
    int64_t age_ns
    int64_t idle_ns
    int64_t requests
    int64_t in_flight
    int64_t bytes_in
    int64_t bytes_out
    int64_t held_bytes
    int64_t mute_ns                # for which a quota keeps it from being read

# What the thread shows when it is asked to.
cdef cppclass View:
    mutex guard
    condition shown
    int64_t asked                  # guard; counts who asked, as `answered` those who were answered
    int64_t answered               # guard
    vector[ConnectionFacts] rows   # guard

# All connections of the thread that reads this inbox; False: it did not answer in time.
cdef bint view_ask(View* view, Inbox* inbox, int64_t deadline_ns,
                   vector[ConnectionFacts]* into) noexcept nogil
# That thread answers.
cdef void view_show(View* view, unordered_map[int64_t, Connection*]* connections,
                    int64_t now_ns) noexcept nogil
