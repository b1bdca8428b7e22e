"""Waits at a partition, and the mailbox of the waiting thread. Knows no log and no request.

A `Watch` is one wait at one partition: of a fetch for more records, of a produce for the disk. It
stays in the partition's list until its owner removes it, and gets at most one mail between two
re-arms. The owner is a processor thread (`_processor.pyx`); the thread that moves the partition's
offsets sends the mail.

Lock order: a partition's watch guard, then an inbox's guard. Nothing else is taken under either.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.memory cimport shared_ptr, weak_ptr
from libcpp.vector cimport vector

from appliance.native._native cimport atomic_bool, atomic_i64, mutex

cdef enum WatchKind:
    WATCH_DURABLE = 0              # acknowledged: durable, at all replicas that count, >= offset
    WATCH_VISIBLE = 1              # high watermark > offset
    WATCH_STABLE = 2               # last stable offset > offset
    WATCH_APPENDED = 3             # log end > offset: a follower's

cdef enum MailKind:
    MAIL_WAKE = 0                  # look again at the request in this slot
    MAIL_CONNECTION = 1            # a new connection: `fd`
    MAIL_REPLY = 2                 # the control plane's answer: `bytes` (empty: none is sent)
    MAIL_CLOSE = 3
    MAIL_VIEW = 4                  # somebody wants to see the connections
    MAIL_READ = 5                  # bytes of an answer are in the page cache now
    MAIL_LOGIN = 6                 # who is at the connection: `bytes`
    MAIL_RAW = 7                   # its next frames are tokens of a login, without headers
    MAIL_LAST = 8                  # the answer in this slot is its last
    MAIL_DECIDED = 9               # rights that the fetch in this slot waits for are known
    MAIL_RULES = 10                # all rights that were known may be others now

cdef cppclass Mail:
    int kind
    int fd
    int64_t connection
    int64_t slot                   # of a new connection: the number of its listener
    int64_t until_ns               # of a new connection: it is read then, 0: at once; of a
                                   # login: when that ends, 0: never
    vector[uint8_t] bytes

# One processor's mailbox. `event_fd` becomes readable with the first mail for one that sleeps:
# one that is awake looks into the mailbox before it sleeps, and needs no system calls for that.
# To wake a thread takes longer than most mails: whoever holds `turn` while the owner sleeps may do
# them in its place.
cdef cppclass Inbox:
    int event_fd                   # its own; constant, as are the next two
    weak_ptr[Inbox] own
    void (*visit)(void* owner) noexcept nogil      # NULL: there are no visits
    mutex guard
    vector[Mail] mails             # guard
    bint is_asleep                 # guard
    bint is_signalled              # guard: there is something to read in event_fd
    mutex turn                     # the owner holds it but while it sleeps; before guard
    void* owner                    # turn; NULL: it has ended, or not begun
    atomic_i64 visits

ctypedef shared_ptr[Inbox] InboxRef

# Offsets that waits are compared with. `is_over`: the log failed, was closed or
# has another role, all are told.
cdef struct Reached:
    int64_t durable
    int64_t visible
    int64_t stable
    int64_t appended
    bint is_over

cdef cppclass Watch:
    Watch* previous                # the list's guard, as are the next four
    Watch* next
    int kind
    int64_t offset
    bint is_told
    bint is_listed                 # the owner's
    Inbox* inbox                   # constant
    int64_t connection             # constant
    int64_t slot                   # constant

cdef cppclass WatchList:
    mutex guard
    Watch* first                   # guard
    atomic_i64 count
    atomic_i64 readers             # those that wait for more to read
    atomic_i64 followers           # those that wait for more to be appended

# A request that names the partition again is not listed twice: one wake-up tells all of it.
cdef void watch_add(WatchList* watches, Watch* watch) noexcept nogil
cdef void watch_remove(WatchList* watches, Watch* watch) noexcept nogil
# The owner is about to look again and will wait for more than `offset` if that is not enough.
cdef void watch_rearm(WatchList* watches, Watch* watch, int64_t offset) noexcept nogil
cdef void watches_tell(WatchList* watches, const Reached* reached) noexcept nogil

# The descriptor is its own from now on.
cdef InboxRef inbox_new(int event_fd, void (*visit)(void* owner) noexcept nogil) noexcept nogil

# From now on the calling thread, instead of waking an owner that can be visited, lists its mailbox
# here, and must visit it soon. NULL: it wakes them again.
cdef void inboxes_keep(vector[InboxRef]* kept) noexcept nogil
# Does the mail of each, or wakes its owner; the list is empty then.
cdef void inboxes_visit(vector[InboxRef]* kept) noexcept nogil

cdef void inbox_put(Inbox* inbox, Mail* mail) noexcept nogil
# Many at once, and one event.
cdef void inbox_put_all(Inbox* inbox, vector[Mail]* mails) noexcept nogil
# Without a mail: there is something else to see.
cdef void inbox_wake(Inbox* inbox) noexcept nogil
# The owner is about to sleep; False: there is mail, look at it first.
cdef bint inbox_may_sleep(Inbox* inbox) noexcept nogil
# Moves all mails out; the event is reset.
cdef void inbox_take(Inbox* inbox, vector[Mail]* into) noexcept nogil
