"""The mailbox of waits that belong to the event loop: a mail is the number of one of them."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._partition_waits cimport Inbox, Mail, inbox_may_sleep, inbox_take

# All until there is none, so that the next one makes the descriptor readable again.
cdef inline void loop_mail_take(Inbox* inbox, vector[int64_t]* numbers) noexcept nogil:
    cdef vector[Mail] mails
    cdef size_t i
    inbox_take(inbox, &mails)
    while not mails.empty() or not inbox_may_sleep(inbox):
        for i in range(mails.size()):
            numbers.push_back(mails[i].slot)
        inbox_take(inbox, &mails)
