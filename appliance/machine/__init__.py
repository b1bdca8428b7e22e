"""The machine under the broker: its disks, memory and clock.

Each subject has a file. `watch` reads all of them every few seconds on a thread, so that a request
for health never waits for them. This room knows no topics and no logs. It runs no programs and
reads the kernel's files; `sync_rate` and `throughput` alone write, into files without a name.
"""
