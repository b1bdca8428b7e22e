"""Bugs that can be planted in the model: each breaks one rule of `docs/replication.md`."""

from __future__ import annotations

BUGS = {
    "truncates to the high watermark": "a follower cuts its log there when it hears of a leader",
    "logs may diverge": "a leader does not compare the epoch at the follower's end",
    "older epochs are answered": "a leader answers and counts fetches of an earlier epoch",
    "older answers are taken": "a follower takes the answer of an earlier epoch",
    "answers are taken anywhere": "a follower appends where its log does not end as it did",
    "stale version is overwritten": "an ISR is written whatever the version is now",
    "refused write is tried again": "as it was, with the version that the state has now",
    "unknown outcome is taken for refused": "a leader whose session ended forgets what it proposed",
    "stale read is believed": "after a lost answer the state is read where it is not yet",
    "page cache counts": "a follower counts as soon as it has appended",
    "leader's page cache counts": "a leader's own share is the end of its log",
    "shrunk before it is written": "a leader counts a smaller ISR before ZooKeeper has it",
    "grown before it counts": "a broker is proposed for the ISR, and not waited for meanwhile",
    "joins by watermark alone": "a follower joins the ISR below the start of the leader's epoch",
    "epoch is led again": "a broker that restarted leads on in the epoch of its former self",
    "former self counts": "fetches count whichever life of the follower sent them",
    "watermark moves below min.insync": "a leader commits with an ISR that is too small",
    "eligible are kept": "a leader commits while others are eligible, once min.insync has fallen",
    "elects anybody": "a leader is chosen from the brokers that live",
    "old election is written": "a controller's election is written whatever the version is now",
    "controller is not fenced": "a controller that another one replaced still writes",
    "news go back": "a leader takes news of its own epoch that are older than what it knows",
    "lost disk stays in the ISR": "a broker that lost its disk registers without resigning",
    "resigns in its former life": "a broker without its disk resigns before its life is raised",
    "lost disk in the same life": "a disk is replaced while the broker runs, and its life goes on",
    "watermark is told too early": "a new leader tells an end that may be below one that was told",
}
