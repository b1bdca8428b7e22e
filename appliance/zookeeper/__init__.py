"""Registration in a ZooKeeper (`registration`), the nodes it writes, the groups of consumers that
others keep there (`consumer_nodes`), and a ZooKeeper server for tests."""
