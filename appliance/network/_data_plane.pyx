"""The data plane as Python sees it: it starts and stops the network threads, tells them of topics
and quotas, takes the requests that they do not answer, and reads their counters.

None of these threads takes the GIL, and no call here blocks on them but `stop` and `connections`.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from cpython.bytes cimport PyBytes_FromStringAndSize

from appliance._log cimport Log
from appliance.native._histogram cimport (
    API_KEYS, ROW_FETCH_WAITED, ROWS, TIME_BUCKETS, Times, Traffic,
)
from appliance.native._native cimport CounterLines, close, errno, monotonic_ns
from appliance.native._socket cimport (
    EFD_CLOEXEC, EFD_NONBLOCK, EPOLL_CLOEXEC, epoll_create1, eventfd, eventfd_write,
)
from appliance.network._acceptor cimport (
    Acceptor, acceptor_listen, acceptor_start, acceptor_stop,
)
from appliance.network._connection_list cimport ConnectionFacts, view_ask
from appliance.network._connection_quota cimport ConnectionQuota, connection_quota_set
from appliance.network._control_plane_inbox cimport (
    LISTENERS_MAX, Arrival, Closure, Plane, Punt as CPunt, Question, Racks, arrivals_take,
    closures_take, punts_take, questions_take,
)
from appliance.network._handed_out cimport (
    handed_arrivals, handed_closures, handed_facts, handed_listener, handed_questions,
)
from appliance.network._plane_limits cimport plane_set_limits
from appliance.network._processor cimport (
    Processor, processor_start, processor_stop, processor_visit,
)
from appliance.network._quota cimport (
    quota_entity, quota_set_rate, quotas_count, quotas_set,
)
from appliance.network._rights cimport rights_count, rights_decide
from appliance.network._tls cimport TlsListenerRef
from appliance.network._tls_context cimport TlsContext
from appliance.network._topic_table cimport (
    TOPIC_COUNTS, Topic, TopicLeader, TopicRef, topics_counted, topics_put, topics_remove,
)
from appliance.storage._cold_reads cimport cold_readers_start, cold_readers_stop
from appliance.storage._commit_requests cimport CommitterRef
from appliance.storage._partition_log cimport LogRef
from appliance.storage._partition_waits cimport (
    MAIL_CLOSE, MAIL_DECIDED, MAIL_LAST, MAIL_LOGIN, MAIL_RAW, MAIL_REPLY, MAIL_RULES, InboxRef,
    Mail, inbox_new, inbox_put, inbox_put_all, inboxes_keep, inboxes_visit,
)

cdef enum:
    LENGTH_BYTES = 4               # before a response; written when it is sent
    VISIT_BYTES_MAX = 16384        # of an answer that the event loop sends itself


# ---- without the GIL ----

cdef int _start(Acceptor* acceptor) noexcept nogil:
    """0, or why a thread cannot be made: then there is none."""
    cdef size_t started = 0
    cdef int error = cold_readers_start(&acceptor.plane.cold, acceptor.plane.limits.cold_readers)
    while error == 0 and started < acceptor.processors.size():
        error = processor_start(acceptor.processors.at(started))
        started += error == 0
    if error == 0:
        error = acceptor_start(acceptor)
    if error != 0:
        _stop_processors(acceptor, started, 0)
    return error


cdef void _stop_processors(Acceptor* acceptor, size_t started, int64_t drain_ns) noexcept nogil:
    cdef size_t i
    for i in range(started):
        processor_stop(acceptor.processors.at(i), drain_ns)
    cold_readers_stop(&acceptor.plane.cold)


cdef void _put_racks(Racks* racks, const string& own,
                     unordered_map[string, vector[int32_t]]* nodes) noexcept nogil:
    racks.guard.lock()
    racks.own = own
    racks.nodes.swap(nodes[0])
    racks.are_used.store(not racks.nodes.empty())
    racks.guard.unlock()


cdef void _stop(Acceptor* acceptor, int64_t drain_ns) noexcept nogil:
    acceptor.plane.is_draining.store(True)
    acceptor_stop(acceptor)
    _stop_processors(acceptor, acceptor.processors.size(), drain_ns)


# ---- with the GIL ----

@cython.no_gc  # it is in no cycle, and the count needs what it refers to
cdef class Punt:
    """A request for the control plane. Its bytes count as queued for as long as it lives, so that
    nobody need say when it was answered, cancelled or dropped."""

    cdef readonly int64_t connection
    cdef readonly int64_t slot
    cdef readonly str peer
    cdef readonly int listener
    cdef readonly bint is_raw
    cdef readonly bytes frame
    cdef DataPlane data_plane

    def __dealloc__(self):
        if self.data_plane is not None:
            self.data_plane.plane.queued_bytes.fetch_add(-<int64_t>len(self.frame))


cdef Punt _punt(DataPlane data_plane, const CPunt* c_punt):
    cdef Punt punt = Punt.__new__(Punt)
    punt.connection = c_punt.connection
    punt.slot = c_punt.slot
    punt.peer = c_punt.peer.decode()
    punt.listener = c_punt.listener
    punt.is_raw = c_punt.is_raw
    punt.frame = PyBytes_FromStringAndSize(<const char*>c_punt.frame.data(), c_punt.frame.size())
    punt.data_plane = data_plane
    return punt


cdef class DataPlane:
    """Listens, serves Produce and Fetch, and hands every other request out as a `Punt`."""

    cdef Plane* plane
    cdef Acceptor* acceptor
    cdef vector[Processor*] processors
    cdef list listeners
    cdef bint is_running

    def __cinit__(self, config not None):
        cdef int32_t i
        cdef Processor* processor
        self.listeners = []
        self.plane = new Plane()
        self.acceptor = new Acceptor()
        plane_set_limits(self.plane, config)
        self.plane.punt_fd = _checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
        self.acceptor.plane = self.plane
        self.acceptor.processors = &self.processors
        self.acceptor.epoll_fd = _checked(epoll_create1(EPOLL_CLOEXEC))
        self.plane.acceptor_fd = _checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
        for i in range(self.plane.limits.processors):
            processor = new Processor()
            processor.plane = self.plane
            processor.index = i
            processor.traffic = new Traffic()
            self.processors.push_back(processor)
            processor.epoll_fd = _checked(epoll_create1(EPOLL_CLOEXEC))
            processor.inbox = inbox_new(_checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
                                        processor_visit)

    def __dealloc__(self):
        cdef size_t i
        if self.is_running:
            with nogil:
                _stop(self.acceptor, 0)
        for i in range(self.processors.size()):
            close(self.processors[i].epoll_fd)
            del self.processors[i].traffic
            del self.processors[i]
        if self.acceptor != NULL:
            close(self.acceptor.epoll_fd)
            del self.acceptor
        if self.plane != NULL:
            close(self.plane.punt_fd)
            close(self.plane.acceptor_fd)
            del self.plane

    def listen(self, listener not None, bint asks_login=False, TlsContext tls=None):
        """Takes connections of a socket that listens; it stays open until `stop`. Its number is the
        count of those before it. `asks_login`: they may only log in, until `log_in`."""
        cdef TlsListenerRef none
        cdef int number = len(self.listeners)
        if number >= LISTENERS_MAX:
            raise ValueError(f"got listener {number + 1}, wanted {LISTENERS_MAX} at most")
        listener.setblocking(False)
        self.plane.listeners[number].asks_login = asks_login
        self.plane.tls.push_back(none if tls is None else tls.listener)
        _checked(acceptor_listen(self.acceptor, listener.fileno()))
        self.listeners.append(listener)

    def start(self):
        cdef int error
        with nogil:
            error = _start(self.acceptor)
        if error != 0:
            raise OSError(error, "the threads of the data plane cannot be started")
        self.is_running = True

    def stop(self, int64_t drain_ms):
        """Takes no more connections; requests that came are answered, for so long at most."""
        if not self.is_running:
            return
        self.is_running = False
        with nogil:
            _stop(self.acceptor, drain_ms * 1000000)
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()

    # The control plane's side

    @property
    def punt_fd(self):
        """Readable when `punts`, `closures` or `questions` has something."""
        return self.plane.punt_fd

    def punts(self):
        """The requests that came since the last call, and the connections that ended: nobody waits
        for what they asked."""
        cdef vector[CPunt] punts
        cdef vector[int64_t] gone
        cdef size_t i
        punts_take(self.plane, &punts, &gone)
        return [_punt(self, &punts[i]) for i in range(punts.size())], list(gone)

    def arrivals(self):
        """Connections of listeners where the client's certificate is the login, since the last
        call: its subject in DER, b"" without one, and from when it is good. Each connection is
        read once `log_in` has said who it is."""
        cdef vector[Arrival] arrivals
        arrivals_take(self.plane, &arrivals)
        return handed_arrivals(&arrivals)

    def closures(self):
        """Connections that were ended since the last call although their clients wanted more, and
        of how many such nothing else is known."""
        cdef vector[Closure] closures
        cdef int64_t left_out = closures_take(self.plane, &closures)
        return handed_closures(&closures), left_out

    def reply_all(self, list answers not None):
        """Answers punts: connection, slot, and response header and body as one. None ends a punt
        that has no answer, as acks=0 asks. Nothing happens when the peer is gone. A wake-up costs
        as much as the sending of an answer: a processor that sleeps is woken once for all of them,
        and a small one alone is sent here and now, in its place."""
        cdef vector[vector[Mail]] mails
        cdef vector[Mail]* own
        cdef vector[InboxRef] asleep
        cdef int64_t connection, slot
        cdef bytes frame
        cdef size_t i
        cdef bint is_visit = len(answers) == 1
        mails.resize(self.processors.size())
        for connection, slot, frame in answers:
            own = &mails[connection % self.processors.size()]
            own.resize(own.size() + 1)
            own.back().kind = MAIL_REPLY
            own.back().connection = connection
            own.back().slot = slot
            if frame is not None:
                is_visit = is_visit and len(frame) <= VISIT_BYTES_MAX
                own.back().bytes.resize(LENGTH_BYTES + len(frame))
                memcpy(own.back().bytes.data() + LENGTH_BYTES, <const char*>frame, len(frame))
        inboxes_keep(&asleep if is_visit else NULL)
        for i in range(mails.size()):
            if not mails[i].empty():
                inbox_put_all(self.processors[i].inbox.get(), &mails[i])
        inboxes_keep(NULL)
        # The GIL is kept: to get it back may take longer than to send what is small.
        inboxes_visit(&asleep)

    def close(self, int64_t connection):
        """Drops a connection, with whatever it still waits for."""
        self._put(connection, MAIL_CLOSE, -1)

    cdef void _put(self, int64_t connection, int kind, int64_t slot):
        cdef Mail mail
        mail.kind = kind
        mail.connection = connection
        mail.slot = slot
        mail.until_ns = 0
        inbox_put(self.processors[connection % self.processors.size()].inbox.get(), &mail)

    # Logins

    def log_in(self, int64_t connection, str principal not None, int64_t expires_ns=0):
        """Who is at a connection from its next frame on. Called before `reply_all` tells its
        client. From `expires_ns` on, on the monotonic clock, it must log in again; 0: never."""
        cdef Mail mail
        cdef bytes name = principal.encode()
        mail.kind = MAIL_LOGIN
        mail.connection = connection
        mail.slot = -1
        mail.until_ns = expires_ns
        mail.bytes.resize(len(name))
        memcpy(mail.bytes.data(), <const char*>name, len(name))
        inbox_put(self.processors[connection % self.processors.size()].inbox.get(), &mail)

    def expect_raw(self, int64_t connection):
        """The next frames are tokens without a header, until `log_in`: punts with `is_raw`, whose
        answers have no header either. Called before `reply_all` tells the client."""
        self._put(connection, MAIL_RAW, -1)

    def close_after(self, int64_t connection, int64_t slot):
        """The connection ends when the answer of this slot has been sent. Called before it."""
        self._put(connection, MAIL_LAST, slot)

    # Rights

    def enforce(self, int64_t generation):
        """Rights are asked for from now on, by rules of this generation; 0: all is allowed.
        Decisions of another one are unknown, and every fetch that waits is looked at again."""
        cdef size_t i
        self.plane.rights.generation.store(generation)
        for i in range(self.processors.size()):
            self._put(<int64_t>i, MAIL_RULES, -1)

    def decide(self, str principal not None, str host not None, str topic not None, int known,
               int allowed, int64_t generation):
        """What a principal at a host may do with a topic: bits of `_rights.pxd`, known and allowed.
        Not kept where the rules have moved on. A transactional id is a topic behind a NUL."""
        cdef string c_principal = principal.encode(), c_host = host.encode()
        cdef string name = topic.encode("utf-8", "surrogateescape")  # as in `questions`
        with nogil:
            rights_decide(&self.plane.rights, c_principal, c_host, name, known, allowed, generation)

    def questions(self):
        """Fetches that wait for decisions about topics, since the last call. Each wants `decide`
        for all of them, then `wake`."""
        cdef vector[Question] found
        questions_take(self.plane, &found)
        return handed_questions(&found)

    def wake(self, int64_t connection, int64_t slot):
        """All that a question asked is decided."""
        self._put(connection, MAIL_DECIDED, slot)

    # Topics

    def put_topic(self, str name not None, bytes topic_id not None, list logs not None,
                  bint is_internal=False, str mirror_source not None="", leaders=()):
        """Serves a topic as it is now; `logs` by partition, None: not to be served. `leaders` by
        partition: node and epoch of who leads it, -1: nobody, where this broker has no replica of
        it; None: it has one. A topic of this broker alone has none."""
        cdef TopicRef topic = make_shared[Topic]()
        cdef TopicLeader leader
        cdef LogRef none
        topic.get().name = name.encode()
        topic.get().id = topic_id
        topic.get().is_internal = is_internal
        topic.get().mirror_source = mirror_source.encode()
        topic.get().counts = make_shared[CounterLines](self.processors.size())
        for log in logs:
            topic.get().logs.push_back(none if log is None else (<Log?>log).log)
            if log is not None:
                self._keep((<Log>log).committer)
        for each in leaders:
            leader.node, leader.epoch = (-1, -1) if each is None else each
            topic.get().leaders.push_back(leader)
        with nogil:
            topics_put(&self.plane.topics, topic)

    cdef void _keep(self, const CommitterRef& committer):
        """For as long as a thread may find one of its logs: there are few, one for each directory
        and each time that one is opened again."""
        cdef size_t i
        for i in range(self.plane.committers.size()):
            if self.plane.committers[i].get() == committer.get():
                return
        self.plane.committers.push_back(committer)

    def remove_topic(self, str name not None):
        cdef string c_name = name.encode()
        with nogil:
            topics_remove(&self.plane.topics, c_name)

    # Quotas

    def set_rates(self, int kind, list rates not None):
        """What clients may use from now on, by a kind of `_quota.pxd`: of each entity its
        precedence, user and client id (or address), "" where it has none, and its rate."""
        cdef unordered_map[string, int64_t] by_entity
        cdef string c_user, c_client
        for precedence, user, client, rate in rates:
            c_user, c_client = user.encode(), client.encode()
            by_entity[quota_entity(precedence, c_user, c_client)] = rate
        with nogil:
            quotas_set(&self.plane.quotas, kind, &by_entity)

    def limit_followers(self, int64_t rate):
        """Bytes a second of what is to be followed slowly; 0: as fast as it can be."""
        quota_set_rate(&self.plane.to_followers, rate)

    # Racks

    def put_racks(self, str own not None, racks not None):
        """Consumers that name a rack in which followers are, by node, are sent to one of them;
        `own` is that of this broker. Without racks all are served here."""
        cdef unordered_map[string, vector[int32_t]] nodes
        cdef string c_own = own.encode(), name
        for node, rack in racks.items():
            name = rack.encode()
            nodes[name].push_back(node)
        with nogil:
            _put_racks(&self.plane.racks, c_own, &nodes)

    def limit_connections_per_ip(self, int64_t most):
        """For connections that come from now on."""
        with nogil:
            self.plane.peers.guard.lock()  # the acceptor reads it under this
            self.plane.limits.connections_per_ip = most
            self.plane.peers.guard.unlock()

    def limit_connections(self, int64_t most, int64_t rate, int listener=-1):
        """Connections at a time, and a second, of a listener, or of all together (-1); 0: no limit.
        From now on what comes beyond them waits to be accepted."""
        cdef ConnectionQuota* quota = &self.plane.connections
        if not -1 <= listener < LISTENERS_MAX:
            raise ValueError(f"got listener {listener}, wanted 0 to {LISTENERS_MAX - 1}, or -1")
        if listener >= 0:
            quota = &self.plane.listeners[listener].connections
        connection_quota_set(quota, most, rate)
        eventfd_write(self.plane.acceptor_fd, 1)

    def listener_counters(self):
        """Of each listener, by name: what was counted since the start, how many connections it has,
        and whether new ones wait, and why."""
        return [handed_listener(&self.plane.listeners[i]) for i in range(self.acceptor.listeners)]

    def counters(self):
        """What was counted since the start, by name; `open` is how many connections there are."""
        cdef Plane* plane = self.plane
        cdef int64_t visits = 0, timers = 0, shaken = 0, unshaken = 0
        cdef size_t i
        for i in range(self.acceptor.listeners):
            shaken += plane.listeners[i].handshakes_done.load()
            unshaken += plane.listeners[i].handshakes_failed.load()
        for i in range(self.processors.size()):
            visits += self.processors[i].inbox.get().visits.load()
            timers += self.processors[i].timers_kept.load()
        return {
            "connections_accepted": plane.connections.accepted.load(),
            "connections_refused": plane.counters.refused.load(),
            "connections_open": plane.connections.open.load(),
            "connections_closed_idle": plane.counters.closed_idle.load(),
            "connections_closed_frame": plane.counters.closed_frame.load(),
            "connections_closed_slow": plane.counters.closed_slow.load(),
            "connections_closed_malformed": plane.counters.closed_malformed.load(),
            "tls_handshakes": shaken,
            "tls_handshakes_open": plane.counters.handshakes.load(),
            "tls_handshakes_resumed": plane.counters.handshakes_resumed.load(),
            "tls_handshakes_failed": unshaken,
            "connections_closed_login": plane.counters.closed_login.load(),
            "produce_requests": plane.counters.produce_requests.load(),
            "fetch_requests": plane.counters.fetch_requests.load(),
            "punted_requests": plane.counters.punted_requests.load(),
            "throttled_requests": plane.counters.throttled_requests.load(),
            "processor_visits": visits,  # whose mail another thread did while they slept
            "timers": timers,
            "bytes_in": plane.counters.bytes_in.load(),
            "bytes_out": plane.counters.bytes_out.load(),
            "produced_bytes": plane.counters.produced_bytes.load(),
            "fetched_bytes": plane.counters.fetched_bytes.load(),
            "cold_reads": plane.cold.reads.load(),
            "queued_bytes": plane.queued_bytes.load(),
            "held_bytes": plane.held_bytes.load(),
            "fetch_partitions": plane.fetch_partitions.load(),
            "quota_names": quotas_count(&plane.quotas),
            "decisions": rights_count(&plane.rights),
        }

    def connections(self, int64_t timeout_ms):
        """All connections, as their threads see them; None: one did not answer in time. Blocks."""
        cdef vector[ConnectionFacts] facts
        cdef int64_t deadline_ns = monotonic_ns() + timeout_ms * 1000000
        cdef bint is_shown = self.is_running
        cdef size_t i
        with nogil:
            for i in range(self.processors.size()):
                is_shown = is_shown and view_ask(
                    &self.processors[i].view, self.processors[i].inbox.get(), deadline_ns, &facts)
        if not is_shown:
            return None
        return handed_facts(&facts)

    # Metrics

    def request_times(self):
        """How long requests took, by API key, None for keys that no API has: how many by
        `TIME_BOUNDS_NS`, their sum in nanoseconds, and whether they waited for data."""
        rows = []
        for row in range(ROWS):
            counts, sum_ns = self._times(row)
            if sum(counts):
                key = 1 if row == ROW_FETCH_WAITED else row if row < API_KEYS else None
                rows.append((key, counts, sum_ns, row == ROW_FETCH_WAITED))
        return rows

    cdef _times(self, int row):
        cdef size_t i
        counts, sum_ns = [0] * TIME_BUCKETS, 0
        for i in range(self.processors.size()):
            more, ns = _times_of(&self.processors[i].traffic.requests[row])
            counts = list(map(sum, zip(counts, more)))
            sum_ns += ns
        return counts, sum_ns

    def turn_times(self):
        """How long the turns of each network thread took, as `request_times` has it."""
        cdef size_t i
        return [_times_of(&self.processors[i].traffic.turns)
                for i in range(self.processors.size())]

    def topic_counts(self, str name not None):
        """Bytes that were fetched, produces that failed, fetches that failed; None: no topic."""
        cdef string c_name = name.encode()
        cdef int64_t[TOPIC_COUNTS] counts
        cdef int i
        for i in range(TOPIC_COUNTS):
            counts[i] = topics_counted(&self.plane.topics, c_name, i)
        return None if counts[0] < 0 else tuple(counts)


cdef _times_of(Times* times):
    cdef int i
    return [times.counts[i].load() for i in range(TIME_BUCKETS)], times.sum_ns.load()


cdef int _checked(int result) except -2:
    if result < 0:
        raise OSError(errno, "the data plane cannot be set up")
    return result
