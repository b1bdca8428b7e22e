"""Logs a connection to a leader in. What is sent, and what an answer means, only Python knows: a
thread of its own (`Fetcher`) is asked, so that the follower's thread needs nothing of Python.

    idle ──leader_log_in──► asked: BEGIN, then each ANSWER ──login_reply──► SEND … DONE, or FAILED
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.replication._leader_link cimport LeaderLink, LoginTalk

cdef enum LoginQuestion:
    LOGIN_NOTHING = 0
    LOGIN_BEGIN = 1                # what is to be sent first?
    LOGIN_ANSWER = 2               # this came; what is to be sent next?
    LOGIN_STOP = 3                 # nothing is asked any more

cdef enum LoginReply:
    LOGIN_NONE = 0
    LOGIN_SEND = 1
    LOGIN_DONE = 2                 # `lasts_ms`
    LOGIN_FAILED = 3               # the bytes are words

# LINK_OK, or why not.
cdef int leader_log_in(LeaderLink* link) noexcept nogil
# Blocks until something is asked.
cdef int login_asked(LoginTalk* talk, vector[uint8_t]* bytes) noexcept nogil
cdef void login_reply(LoginTalk* talk, int reply, vector[uint8_t]* bytes,
                      int64_t lasts_ms) noexcept nogil
# Whoever waits ends.
cdef void login_stop(LoginTalk* talk) noexcept nogil
