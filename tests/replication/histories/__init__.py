"""Histories: three brokers and three ZooKeepers, each in a network of its own, with workloads and
faults at once; and the checks of what the clients saw."""
