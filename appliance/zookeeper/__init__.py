"""Registration in a ZooKeeper (`registration`), the nodes it writes, and a server for trying it
out."""
