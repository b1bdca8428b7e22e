"""Registration in a ZooKeeper (`registration`), the nodes it writes, and a ZooKeeper server for
tests."""
