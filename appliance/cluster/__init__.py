"""Several appliances as one, as far as it is decided in a ZooKeeper: who lives, who leads, which
topics there are. `cluster` is the door; `election` and `placement` are the rules, without I/O."""
