"""What is known of the machine under the broker: its disks, its clock.

A file for each thing that is looked at; `watch` looks at all of them every few seconds, on a
thread, as none of them may hold up who asks for health. Nothing here knows of topics or logs, and
no program is run: the kernel's files tell.
"""
