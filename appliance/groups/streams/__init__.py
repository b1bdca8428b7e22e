"""Groups of Kafka Streams (KIP-1071), in which the broker makes internal topics and assigns tasks.

topology            what an application reads, keeps and writes, as its members say it
topics_of_topology  what that means with the topics that there are: tasks, and missing topics
task                a task, and in which role a member has it
sticky_assignor     who gets which task
member              what is asked and answered, and one member
members             who is in a group, and who has which task
group               one group, with its topology and targets; no clock, no I/O
endpoints           where applications find each other's state
membership          members come in: groups are found, made and restored
internal_topics     makes what a topology wants
records             the bytes in `__consumer_offsets`
"""
