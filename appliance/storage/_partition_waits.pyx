"""Waits at a partition and the mailbox of the thread that waits."""

from libc.stdint cimport int64_t, uint64_t
from libcpp.memory cimport weak_ptr
from libcpp.vector cimport vector

from appliance.native._native cimport ScopeLock, close, own, zeroed
from appliance.native._socket cimport eventfd_read, eventfd_write
from appliance.native._thread_local cimport thread_keep, thread_kept

cdef enum:
    VISIT_MAILS_MAX = 4            # more of them, and a core of its owner's own does them sooner

# ---- without the GIL ----

cdef void watch_add(WatchList* watches, Watch* watch) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(watches.guard)
    if _is_same_wait(watches.first, watch):
        return
    watch.is_listed = True
    watch.previous = NULL
    watch.next = watches.first
    if watches.first != NULL:
        watches.first.previous = watch
    watches.first = watch
    watches.count.fetch_add(1)
    _count(watches, watch, 1)


cdef bint _is_same_wait(const Watch* watch, const Watch* other) noexcept nogil:
    return (watch != NULL and watch.connection == other.connection and watch.slot == other.slot
            and watch.kind == other.kind and watch.kind != WATCH_DURABLE)


cdef void watch_remove(WatchList* watches, Watch* watch) noexcept nogil:
    cdef ScopeLock lock
    if not watch.is_listed:
        return
    watch.is_listed = False
    lock.hold(watches.guard)
    if watch.previous != NULL:
        watch.previous.next = watch.next
    else:
        watches.first = watch.next
    if watch.next != NULL:
        watch.next.previous = watch.previous
    watches.count.fetch_add(-1)
    _count(watches, watch, -1)


cdef void _count(WatchList* watches, const Watch* watch, int64_t more) noexcept nogil:
    if watch.kind == WATCH_APPENDED:
        watches.followers.fetch_add(more)
    elif watch.kind != WATCH_DURABLE:
        watches.readers.fetch_add(more)


cdef void watch_rearm(WatchList* watches, Watch* watch, int64_t offset) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(watches.guard)
    watch.is_told = False
    watch.offset = offset


cdef void watches_tell(WatchList* watches, const Reached* reached) noexcept nogil:
    cdef Watch* watch
    cdef Mail mail = zeroed[Mail]()
    cdef ScopeLock lock
    lock.hold(watches.guard)
    watch = watches.first
    while watch != NULL:
        if not watch.is_told and _is_reached(watch, reached):
            watch.is_told = True
            mail.kind = MAIL_WAKE
            mail.connection = watch.connection
            mail.slot = watch.slot
            inbox_put(watch.inbox, &mail)
        watch = watch.next


cdef bint _is_reached(const Watch* watch, const Reached* reached) noexcept nogil:
    if reached.is_over:
        return True
    if watch.kind == WATCH_DURABLE:
        return reached.durable >= watch.offset
    if watch.kind == WATCH_APPENDED:
        return reached.appended > watch.offset
    return (reached.visible if watch.kind == WATCH_VISIBLE else reached.stable) > watch.offset


cdef InboxRef inbox_new(int event_fd,
                        void (*visit)(void* owner) noexcept nogil) noexcept nogil:
    cdef InboxRef inbox = own[Inbox](new Inbox(), _end)
    inbox.get().event_fd = event_fd
    inbox.get().own = weak_ptr[Inbox](inbox)
    inbox.get().visit = visit
    return inbox


cdef void _end(Inbox* inbox) noexcept nogil:
    close(inbox.event_fd)
    del inbox


cdef void inboxes_keep(vector[InboxRef]* kept) noexcept nogil:
    thread_keep(kept)


cdef void inboxes_visit(vector[InboxRef]* kept) noexcept nogil:
    cdef size_t i = 0
    while i < kept.size():  # a visit may list more of them
        if not _visit(kept.at(i).get()):
            inbox_wake(kept.at(i).get())
        i += 1
    kept.clear()


cdef bint _visit(Inbox* inbox) noexcept nogil:
    """False: the owner is awake, or had better be. One that is about to sleep may have looked for
    mail already, so whoever cannot be visited must be woken."""
    cdef bint has_much
    cdef ScopeLock turn
    inbox.guard.lock()
    has_much = inbox.mails.size() > VISIT_MAILS_MAX
    inbox.guard.unlock()
    if has_much or not turn.try_hold(inbox.turn):
        return False
    if inbox.owner != NULL:
        inbox.visits.fetch_add(1)
        inbox.visit(inbox.owner)
    return True


cdef void inbox_put(Inbox* inbox, Mail* mail) noexcept nogil:
    inbox.guard.lock()
    _add(inbox, mail)
    _signal_and_unlock(inbox)


cdef void inbox_put_all(Inbox* inbox, vector[Mail]* mails) noexcept nogil:
    cdef size_t i
    inbox.guard.lock()
    for i in range(mails.size()):
        _add(inbox, &mails.at(i))
    _signal_and_unlock(inbox)


cdef void _add(Inbox* inbox, Mail* mail) noexcept nogil:
    inbox.mails.resize(inbox.mails.size() + 1)
    inbox.mails.back().kind = mail.kind
    inbox.mails.back().fd = mail.fd
    inbox.mails.back().connection = mail.connection
    inbox.mails.back().slot = mail.slot
    inbox.mails.back().until_ns = mail.until_ns
    inbox.mails.back().bytes.swap(mail.bytes)


cdef void _signal_and_unlock(Inbox* inbox) noexcept nogil:
    cdef vector[InboxRef]* kept = <vector[InboxRef]*>thread_kept()
    cdef bint is_asleep = inbox.is_asleep
    cdef bint must_signal = is_asleep and (kept == NULL or inbox.visit == NULL)
    inbox.is_asleep = False
    inbox.is_signalled |= must_signal
    inbox.guard.unlock()
    if must_signal:
        eventfd_write(inbox.event_fd, 1)
    elif is_asleep:
        kept.push_back(inbox.own.lock())


cdef bint inbox_may_sleep(Inbox* inbox) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(inbox.guard)
    inbox.is_asleep = inbox.mails.empty()
    return inbox.is_asleep


cdef void inbox_wake(Inbox* inbox) noexcept nogil:
    inbox.guard.lock()
    inbox.is_asleep = False
    inbox.is_signalled = True
    inbox.guard.unlock()
    eventfd_write(inbox.event_fd, 1)


cdef void inbox_take(Inbox* inbox, vector[Mail]* into) noexcept nogil:
    cdef uint64_t count
    cdef ScopeLock lock
    into.clear()
    lock.hold(inbox.guard)
    into.swap(inbox.mails)
    inbox.is_asleep = False
    if inbox.is_signalled:
        # Nothing to handle: it only says that there is nothing to reset.
        eventfd_read(inbox.event_fd, &count)
        inbox.is_signalled = False
