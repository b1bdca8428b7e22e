"""One client's connection: bytes that came, requests in their order, answers on their way out.

Owned by one processor thread; nothing here is locked.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libcpp.deque cimport deque
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.native._histogram cimport Traffic
from appliance.native._native cimport RawBytes
from appliance.network._control_plane_inbox cimport Plane
from appliance.network._quota cimport ClientQuotas, Quota
from appliance.network._rights cimport ClientRights
from appliance.network._tls cimport Tls
from appliance.network._topic_table cimport TopicRef
from appliance.protocol._frame cimport Piece
from appliance.storage._cold_reads cimport ColdReadRef
from appliance.storage._partition_log cimport LogRef
from appliance.storage._partition_waits cimport InboxRef, Watch

cdef enum:
    NOT_LOGGED_IN = -1             # in the place of a time

# Bytes of a file that stand before byte `at` of an answer's own bytes.
cdef cppclass Span:
    size_t at
    LogRef log
    FileRef file
    int64_t segment_base           # of the log's segment that `file` is
    int64_t position
    int64_t size

cdef cppclass Answer:
    vector[uint8_t] bytes
    vector[Span] spans

# A produce that waits for the disk. Its answer is written as if all went well; what does not is
# patched in.
cdef struct ErrorPlace:
    size_t error_at
    size_t offset_at
    int64_t election               # the epoch in which it was appended; -1: its log is alone

cdef cppclass DurableWait:
    vector[LogRef] logs
    vector[Watch] watches
    vector[ErrorPlace] places

ctypedef shared_ptr[DurableWait] DurableWaitRef

cdef cppclass ProduceTarget:
    int32_t partition
    LogRef log
    Piece batch

cdef cppclass ProduceTopic:
    TopicRef topic
    vector[ProduceTarget] targets
    bint is_mirrored               # by who sends this: batches keep their offsets

cdef cppclass Produce:
    int version
    bint is_flexible
    int16_t acks
    int32_t timeout_ms
    bint is_for_control
    bint is_in_transaction         # a batch says so
    Piece transactional_id         # null: none
    int32_t throttle_ms
    vector[ProduceTopic] topics
    Piece body                     # in which its batches stand
    size_t topic                   # the next target to append, as is the next
    size_t target
    DurableWaitRef durable         # acks=-1: what is appended; its slot gets it with the last
    int64_t slot                   # of one that takes several turns, as is the next
    RawBytes frame                 # what keeps its body

ctypedef shared_ptr[Produce] ProduceRef

cdef cppclass FetchTarget:
    TopicRef topic
    LogRef log
    int32_t partition
    int32_t leader_epoch           # the client's belief; -1: none
    int32_t last_epoch             # of a follower: that of its last record; -1: there is none
    int64_t offset
    int64_t log_start_offset       # of a follower: where its log begins
    int64_t max_bytes
    int64_t told_visible           # what a session's client was told last; -1: nothing
    int64_t told_start
    int16_t told_error
    int64_t decided_at             # the generation of the next; 0: it is not known
    bint may_read
    bint is_named                  # of a follower: since it was reported last
    int16_t refused                # of a follower: why it was, when it fetched; 0: it was not
    int32_t diverging_epoch        # of a follower: from where on its log is another; -1: it is not
    int64_t diverging_end

# Partitions that a client fetches again and again, naming only what changed.
cdef cppclass FetchSession:
    int32_t id
    int32_t epoch                  # of the next request
    size_t first                   # where the next answer begins, so that none starves
    int64_t reported_ns            # of a follower: when all of it was reported last, and
    int64_t reported_life          # in which life
    int unheard                    # of a follower: answers in a row that had nothing new
    vector[FetchTarget] targets    # each partition once
    unordered_map[string, size_t] places  # of each partition in `targets`, by topic and number

cdef cppclass Fetch:
    int16_t version
    int32_t correlation_id
    int32_t min_bytes
    int64_t max_bytes
    bint is_committed              # read_committed
    int limit                      # of what it may read, as `ReadLimit` numbers them
    int32_t replica                # the node of a follower; -1: it is no follower
    int64_t replica_life           # of that broker
    bint has_rack                  # of a consumer that says where it is: a follower may serve it
    vector[int32_t] near           # brokers beside it, if followers of these are to serve it
    bint is_reported               # the logs know how far that follower is
    bint reports_all               # also of what it did not name
    bint is_incremental
    int32_t session_id             # 0: none
    int32_t throttle_ms            # as its answer says
    size_t first                   # the target to begin with
    vector[FetchTarget] own        # of a fetch without a session
    vector[FetchTarget]* targets
    vector[Watch] watches          # while it waits; one for each target
    int64_t slot                   # its own
    bint is_due                    # it is answered with whatever there is
    ColdReadRef cold               # the read that it waits for
    int cold_rounds                # of reads, one after the other, that brought nothing
    int64_t cold_total             # bytes that were there when the last one began
    bint is_asked                  # it waits for rights
    int64_t generation             # of the rules it was looked at by; 0: none

ctypedef shared_ptr[Fetch] FetchRef

# Requests are answered in the order in which they came, whatever is ready first.
cdef cppclass Slot:
    bint is_ready
    bint is_silent                 # acks=0: no answer is sent
    bint closes                    # the connection ends here, after the answers before it
    bint is_last                   # the connection ends when this was sent
    bint bars                      # counted in the connection until the control plane answers
    int64_t deadline_ns            # 0: none
    int64_t passed_bytes           # the request's, if the control plane answers it
    bint is_woken                  # among the processor's slots to look at again
    int64_t held_bytes             # of the answer, as counted in the connection
    int row                        # of `Traffic.requests`
    int64_t begun_ns               # when its frame was there
    Answer answer
    DurableWaitRef durable
    FetchRef fetch

# `new Connection()` zeroes it.
cdef cppclass Connection:
    int64_t id
    int fd
    int listener                   # the number of the one that it came to
    string peer
    Plane* plane
    Tls* tls                       # owned; NULL: it is a plain one
    Traffic* traffic               # its processor's, as is the next
    int thread
    InboxRef inbox                 # its processor's
    deque[Slot] slots
    int64_t first_slot             # number of slots.front()
    int waiting                    # slots that hold watches
    int64_t handed_produce         # slot of the last Produce that the control plane got; -1: none
    ProduceRef produce             # one that has more to append in the next turns; empty: none
    int64_t passed                 # slots that the control plane answers, until they are sent
    int64_t passed_bytes           # their requests
    int64_t waiting_partitions     # of fetches that wait

    RawBytes partial               # the beginning of a frame
    int64_t frame_size             # of that frame with its length, 0: not known yet
    int64_t reserved               # counted in plane.queued_bytes
    int64_t frame_ns               # when it began; 0: no frame has begun

    size_t sent_bytes              # of the first slot's answer
    size_t sent_spans
    int64_t sent_of_span
    int64_t warm_of_span           # bytes of it that are in the page cache, sent or not
    ColdReadRef cold               # what reads the next ones; empty: nothing does
    ColdReadRef ahead              # what begins those behind them; nobody waits for it
    int64_t lookups                # fetches that wait for the disk to tell where records are, or
                                   # for the control plane to tell what may be read
    ColdReadRef left_out           # reads what an answer left out; empty, or done: nothing does
    int64_t held_bytes             # of all answers in memory
    int64_t stalled_ns             # since when the peer takes nothing; 0: it does

    uint32_t interest              # what epoll was told
    bint is_bulky                  # its last frame did not fit into the scratch bytes
    bint is_full                   # the socket takes no more now
    bint is_arriving               # the control plane has not said yet who it is
    bint is_starved                # its frame waits for memory
    bint is_listed                 # among the processor's connections with answers to send
    int64_t active_ns
    int64_t since_ns
    string client_id               # of its last request, cut
    int64_t requests               # counted since it began, as the next two
    int64_t bytes_in
    int64_t bytes_out
    ClientQuotas quotas
    int64_t mute_until_ns          # a quota wants it not to be read; 0: it is
    bint is_muted                  # the processor has a timer for the end of that
    FetchSession session           # id 0: none

    int64_t good_until_ns          # requests are taken until then; 0: for good; or NOT_LOGGED_IN
    int64_t login_by_ns            # when a login must be done
    int barred                     # requests whose answers nothing is read before, and an end that
                                   # was announced
    bint is_raw                    # what comes are tokens of a login, without headers
    bint is_over                   # its last answer was sent
    ClientRights rights

cdef Slot* slot_at(Connection* connection, int64_t number) noexcept nogil
cdef int64_t slot_new(Connection* connection) noexcept nogil
cdef void slot_ready(Connection* connection, Slot* slot) noexcept nogil
# Begins an answer: the place for its length, the response header.
cdef void answer_begin(Answer* answer, int32_t correlation_id, bint is_flexible) noexcept nogil

cdef enum SendResult:
    SEND_DONE = 0                  # nothing that is ready is left
    SEND_MORE = 1                  # its turn is over, there is more
    SEND_FULL = 2                  # the socket takes no more now
    SEND_BROKEN = 3
    SEND_COLD = 4                  # what comes next is being read from the disk

# The steps of sending, which those with TLS (`_tls_send.pyx`) share: whether all of the first
# answer is sent, which then leaves; whether a span is next, and can be sent without waiting for the
# disk; `sent` of its own bytes are gone; a file was the reason that it cannot be finished.
cdef bint answer_is_sent(Connection* connection) noexcept nogil
cdef void answer_end(Connection* connection) noexcept nogil
cdef bint answer_stands_at_span(Connection* connection, Slot* slot) noexcept nogil
cdef bint answer_span_is_at_hand(Connection* connection, Slot* slot) noexcept nogil
cdef int64_t answer_advance(Connection* connection, int64_t sent) noexcept nogil
cdef void answer_note_fault(Connection* connection, Slot* slot, int error) noexcept nogil

cdef enum:
    TURN_BYTES = 1048576           # sent, read or appended of one; then others have their turn

# Sends what is ready, at most about one turn's worth.
cdef int connection_send(Connection* connection) noexcept nogil
# Whether another request may be read now.
cdef bint connection_has_room(Connection* connection) noexcept nogil
# Has epoll say what matters now: that it sent something, that it takes something.
cdef void connection_set_interest(Connection* connection, int epoll_fd,
                                  int64_t now_ns) noexcept nogil
# Counts `amount` against a quota. The result: for how many milliseconds the connection is not read,
# after what was answered has been sent.
cdef int32_t connection_charge(Connection* connection, Quota* quota, int64_t amount) noexcept nogil
cdef int32_t connection_mute(Connection* connection, int64_t delay_ns) noexcept nogil
