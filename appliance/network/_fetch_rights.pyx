"""Rights of fetches. A decision stands beside each partition with the generation of its rules, so
that a fetch session of a thousand partitions looks no names up while the rules stay as they are.

A fetch that finds nothing decided asks the control plane (`questions` of the data plane), which
publishes decisions and wakes it by a mail. Meanwhile its connection is not read. It asks for some
topics at a time; what was decided stays, so that it gets on even where decisions are dropped soon.

A follower needs one right, to act as a broker of the cluster: with it it may read all.
"""

from libc.stdint cimport int64_t

from appliance.network._connection cimport Connection, Fetch, FetchTarget, Slot
from appliance.network._control_plane_inbox cimport Question, question_put
from appliance.network._rights cimport (
    RIGHT_CLUSTER_ACTION, RIGHT_READ, VERDICT_ALLOWED, VERDICT_UNKNOWN, rights_cluster_key,
    rights_met, rights_of,
)

cdef enum:
    QUESTION_TOPICS_MAX = 1000     # in one; Python takes some milliseconds for them


# ---- without the GIL ----

cdef bint fetch_is_decided(Connection* connection, Slot* slot, int64_t generation) noexcept nogil:
    cdef Fetch* fetch = slot.fetch.get()
    cdef FetchTarget* target
    cdef size_t i
    if fetch.replica >= 0:
        return _is_decided_of_replica(connection, fetch, generation)
    for i in range(fetch.targets.size()):
        target = &fetch.targets.at(i)
        if target.decided_at == generation:
            continue
        if not rights_met(&connection.rights, target.topic.get().serial, RIGHT_READ, generation):
            return _look_up(connection, fetch, generation)
        target.decided_at = generation
        target.may_read = True
    return True


cdef bint _is_decided_of_replica(Connection* connection, Fetch* fetch,
                                 int64_t generation) noexcept nogil:
    cdef Question question
    cdef size_t i
    cdef int verdict = rights_of(
        &connection.plane.rights, &connection.rights, connection.peer, rights_cluster_key(), 0,
        RIGHT_CLUSTER_ACTION, generation)
    if verdict == VERDICT_UNKNOWN:
        if not fetch.is_asked:
            question.topics.push_back(rights_cluster_key())
            _ask(connection, fetch, &question)
        return False
    for i in range(fetch.targets.size()):
        fetch.targets.at(i).decided_at = generation
        fetch.targets.at(i).may_read = verdict == VERDICT_ALLOWED
    return True


cdef bint _look_up(Connection* connection, Fetch* fetch, int64_t generation) noexcept nogil:
    cdef FetchTarget* target
    cdef FetchTarget* before = NULL
    cdef Question question
    cdef size_t i
    for i in range(fetch.targets.size()):
        target = &fetch.targets.at(i)
        if target.decided_at == generation or target.topic.get().name.empty():
            continue  # an id that is unknown: that is all that there is to tell
        if before == NULL or before.topic.get() != target.topic.get():
            before = target
            _decide(connection, target, generation)
            if target.decided_at != generation and question.topics.size() < QUESTION_TOPICS_MAX:
                question.topics.push_back(target.topic.get().name)
        else:
            target.decided_at = before.decided_at
            target.may_read = before.may_read
    if question.topics.empty():
        return True
    if not fetch.is_asked:
        _ask(connection, fetch, &question)
    return False


cdef void _decide(Connection* connection, FetchTarget* target, int64_t generation) noexcept nogil:
    cdef int verdict = rights_of(
        &connection.plane.rights, &connection.rights, connection.peer, target.topic.get().name,
        target.topic.get().serial, RIGHT_READ, generation)
    target.decided_at = generation if verdict != VERDICT_UNKNOWN else 0
    target.may_read = verdict == VERDICT_ALLOWED


cdef void _ask(Connection* connection, Fetch* fetch, Question* question) noexcept nogil:
    question.connection = connection.id
    question.slot = fetch.slot
    question.principal = connection.rights.principal
    question.host = connection.peer
    fetch.is_asked = True
    connection.lookups += 1
    question_put(connection.plane, question)


cdef void fetch_end_question(Connection* connection, Slot* slot) noexcept nogil:
    connection.lookups -= slot.fetch.get().is_asked
    slot.fetch.get().is_asked = False
