"""Commands that look at a cluster and move its partitions between brokers. They read who is there
in ZooKeeper, and ask and change everything else by Kafka's protocol, so that rights and the audit
log hold; nothing here imports a broker."""
