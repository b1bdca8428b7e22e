"""The tables of `catalog.db`, and the upgrades of older files.

    cluster         one row: id, time of creation, whether the topics on disk were adopted
    topics          name, id, partitions, time of creation
    topic_configs   configs set for a topic; a default has no row
    deletions       deleted topics whose directories may still exist
    broker_configs  configs set at run time, for this broker or as the default of all brokers
    group_configs   configs set for a consumer group, which need not exist
    producer_ids    one row: the first id that was never reserved
    acls            access rules, and whether each may decide
    acl_enforcement one row, once rules are enforced: since when
    client_quotas   entity (as JSON), name and value of each quota
    users           users of Kafka and of the console, with the console's role and password hash
    credentials     SCRAM credentials of users, never the password
    login_secret    one row: a secret for what strangers are shown of users that do not exist
    delegation_tokens             logins that users handed on, and when they end
    delegation_token_credentials  SCRAM credentials of them, never their secret
    delegation_token_key          one row: the key that their secrets are made with
    admin_tokens    tokens of programs for the admin port, with the digest of the token
    topic_schemas   schemas that decode keys and values for display
    audit           changes at both ports by user; the user with most rows loses the oldest
    client_metrics  configs of subscriptions to clients' metrics
    export_holds    offsets that retention keeps for an export
    exports         definitions of exports, as JSON
    export_runs     runs of exports, as JSON; each export loses its oldest rows
    ledger          losses and damage, and who has acknowledged them
    alerts          alerts that were sent or wait, as JSON, with what became of each
    alert_conditions  what was told to be wrong, and has not ended yet, as JSON
    alert_targets   where alerts went when last somebody looked
    log_directories       directories of records, by the id in each, once there were several
    partition_directories  in which of them each partition is
    partition_moves       moves from one to another that are under way
    replicated_topics     topics of a cluster, which ZooKeeper knows
    local_replicas        which of their partitions this broker has
    cluster_facts         of which cluster the users, rules and settings here are a copy
    users_changed_offline users whose change that cluster has not heard of

One module reads and writes a table: `*_rows.py` in the room of its owner, and `config_rows.py` for
all tables of names and values.
"""

from __future__ import annotations

# Each entry upgrades the schema by one version: `user_version` counts the applied entries, and an
# older build refuses a catalog with more of them. So the list is closed until the next major
# version of the data (docs/decisions/upgrade.md): a table that is added goes into ADDITIONS.
SCHEMA = [
    """
    CREATE TABLE cluster (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        is_settled INTEGER NOT NULL CHECK (is_settled IN (0, 1))
    );
    CREATE TABLE topics (
        name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 249),
        id BLOB NOT NULL UNIQUE CHECK (typeof(id) = 'blob' AND length(id) = 16),
        partitions INTEGER NOT NULL CHECK (partitions > 0),
        created_ms INTEGER NOT NULL
    );
    CREATE TABLE topic_configs (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (topic, name)
    );
    CREATE TABLE deletions (
        name TEXT PRIMARY KEY NOT NULL,
        id BLOB NOT NULL,
        partitions INTEGER NOT NULL
    );
    CREATE TABLE broker_configs (
        is_default INTEGER NOT NULL CHECK (is_default IN (0, 1)),
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (is_default, name)
    );
    CREATE TABLE producer_ids (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        next INTEGER NOT NULL CHECK (next >= 0)
    );
    INSERT INTO producer_ids VALUES (1, 0);
    """,
    """
    CREATE TABLE acls (
        resource_type INTEGER NOT NULL,
        resource_name TEXT NOT NULL,
        pattern_type INTEGER NOT NULL,
        principal TEXT NOT NULL,
        host TEXT NOT NULL,
        operation INTEGER NOT NULL,
        permission_type INTEGER NOT NULL,
        PRIMARY KEY (resource_type, resource_name, pattern_type, principal, host, operation,
                     permission_type)
    ) WITHOUT ROWID;
    CREATE TABLE scram (
        user TEXT NOT NULL,
        mechanism INTEGER NOT NULL,
        salt BLOB NOT NULL,
        stored_key BLOB NOT NULL,
        server_key BLOB NOT NULL,
        iterations INTEGER NOT NULL,
        PRIMARY KEY (user, mechanism)
    ) WITHOUT ROWID;
    CREATE TABLE client_quotas (
        entity TEXT NOT NULL,
        name TEXT NOT NULL,
        value REAL NOT NULL CHECK (value > 0),
        PRIMARY KEY (entity, name)
    ) WITHOUT ROWID;
    CREATE TABLE client_metrics (
        subscription TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (subscription, name)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE group_configs (
        group_id TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (group_id, name)
    );
    """,
    """
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        who TEXT NOT NULL,
        peer TEXT NOT NULL,
        action TEXT NOT NULL,
        details TEXT NOT NULL,
        status INTEGER NOT NULL
    );
    """,
    """
    CREATE TABLE admin_users (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        password_hash TEXT NOT NULL,
        created_ms INTEGER NOT NULL
    );
    CREATE TABLE admin_tokens (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        digest BLOB NOT NULL UNIQUE,
        created_ms INTEGER NOT NULL
    );
    """,
    """
    ALTER TABLE admin_users ADD COLUMN may_read INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE admin_tokens ADD COLUMN may_read INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE admin_tokens ADD COLUMN expires_ms INTEGER
    """,
    """
    CREATE TABLE export_holds (
        name TEXT PRIMARY KEY NOT NULL,
        topic TEXT NOT NULL,
        offsets TEXT NOT NULL,
        max_bytes INTEGER NOT NULL CHECK (max_bytes >= 0),
        put_ms INTEGER NOT NULL,
        released_ms INTEGER,
        why_released TEXT NOT NULL
    );
    CREATE TABLE exports (
        name TEXT PRIMARY KEY NOT NULL,
        definition TEXT NOT NULL
    );
    CREATE TABLE export_runs (
        export TEXT NOT NULL REFERENCES exports (name) ON DELETE CASCADE,
        id TEXT NOT NULL,
        state TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        run TEXT NOT NULL,
        PRIMARY KEY (export, id)
    );
    CREATE INDEX export_runs_by_time ON export_runs (export, started_ms)
    """,
    """
    CREATE TABLE topic_schemas (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        part TEXT NOT NULL CHECK (part IN ('key', 'value')),
        form TEXT NOT NULL,
        text TEXT NOT NULL,
        message TEXT NOT NULL,
        updated_ms INTEGER NOT NULL,
        PRIMARY KEY (topic, part)
    )
    """,
    """
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        first_offset INTEGER NOT NULL,
        last_offset INTEGER,
        kind TEXT NOT NULL CHECK (kind IN ('lost', 'damaged', 'skipped')),
        cause TEXT NOT NULL,
        aside TEXT NOT NULL,
        acknowledged_ms INTEGER,
        acknowledged_by TEXT NOT NULL
    )
    """,
    """
    ALTER TABLE acls ADD COLUMN is_confirmed INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE acl_enforcement (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        since_ms INTEGER NOT NULL
    )
    """,
    # One table of users. Credentials from before count for nothing until an administrator has seen
    # them, as everybody who reached the port could write them; those that have the name of a user
    # of the console are not even kept, as confirming them would give away its rights.
    """
    CREATE TABLE users (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        password_hash TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        may_read INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE credentials (
        user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        mechanism INTEGER NOT NULL,
        salt BLOB NOT NULL,
        stored_key BLOB NOT NULL,
        server_key BLOB NOT NULL,
        iterations INTEGER NOT NULL,
        is_confirmed INTEGER NOT NULL CHECK (is_confirmed IN (0, 1)),
        PRIMARY KEY (user, mechanism)
    ) WITHOUT ROWID;
    CREATE TABLE login_secret (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        secret BLOB NOT NULL
    );
    INSERT INTO users SELECT name, role, password_hash, created_ms, may_read FROM admin_users;
    INSERT INTO users SELECT DISTINCT user, 'none', '', strftime('%s', 'now') * 1000, 1
        FROM scram WHERE user NOT IN (SELECT name FROM admin_users);
    INSERT INTO credentials SELECT user, mechanism, salt, stored_key, server_key, iterations, 0
        FROM scram WHERE user NOT IN (SELECT name FROM admin_users);
    DROP TABLE admin_users;
    DROP TABLE scram
    """,
    """
    CREATE TABLE delegation_tokens (
        id TEXT PRIMARY KEY NOT NULL,
        owner TEXT NOT NULL,
        requester TEXT NOT NULL,
        renewers TEXT NOT NULL,
        issued_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        max_ms INTEGER NOT NULL,
        digest BLOB NOT NULL UNIQUE,
        is_of_user INTEGER NOT NULL CHECK (is_of_user IN (0, 1))
    );
    CREATE TABLE delegation_token_credentials (
        token TEXT NOT NULL REFERENCES delegation_tokens (id) ON DELETE CASCADE,
        mechanism INTEGER NOT NULL,
        salt BLOB NOT NULL,
        stored_key BLOB NOT NULL,
        server_key BLOB NOT NULL,
        iterations INTEGER NOT NULL,
        PRIMARY KEY (token, mechanism)
    ) WITHOUT ROWID;
    CREATE TABLE delegation_token_key (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        secret BLOB NOT NULL
    )
    """,
    """
    ALTER TABLE audit ADD COLUMN port TEXT NOT NULL DEFAULT 'admin';
    ALTER TABLE audit ADD COLUMN mechanism TEXT NOT NULL DEFAULT ''
    """,
    # Users that an administrator deleted, and when last. Rows stay when a user gets the name again.
    """
    CREATE TABLE deleted_users (
        name TEXT PRIMARY KEY NOT NULL,
        at_ms INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE alerts (
        id TEXT PRIMARY KEY NOT NULL,
        at_ms INTEGER NOT NULL,
        alert TEXT NOT NULL,
        deliveries TEXT NOT NULL
    );
    CREATE TABLE alert_conditions (
        key TEXT PRIMARY KEY NOT NULL,
        condition TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE alert_targets (
        channel TEXT PRIMARY KEY NOT NULL,
        target TEXT NOT NULL
    ) WITHOUT ROWID
    """,
]

# Tables that came since, by name: each is made where it is missing, whatever else is there. A build
# that does not know one leaves it alone, so its rows may speak of what is no more: they name things
# by ids that are never used again, and who reads them drops those. An entry that was released is
# never edited, and a column is never added: older builds read whole rows.
ADDITIONS: dict[str, str] = {
    # While another directory than `data.dir` has partitions, older builds are refused (`needs`), so
    # these may speak of topics by name.
    "log_directories": """
    CREATE TABLE log_directories (
        id TEXT PRIMARY KEY NOT NULL,
        path TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    "partition_directories": """
    CREATE TABLE partition_directories (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        partition INTEGER NOT NULL,
        directory TEXT NOT NULL,
        PRIMARY KEY (topic, partition)
    ) WITHOUT ROWID
    """,
    "partition_moves": """
    CREATE TABLE partition_moves (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        partition INTEGER NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        PRIMARY KEY (topic, partition)
    ) WITHOUT ROWID
    """,
    # While there is one, older builds are refused (`needs`): they would serve what others lead.
    "replicated_topics": """
    CREATE TABLE replicated_topics (
        topic TEXT PRIMARY KEY NOT NULL REFERENCES topics (name) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    # Whose facts (users, rules, settings) this catalog has a copy of: the id of the cluster.
    "cluster_facts": """
    CREATE TABLE cluster_facts (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        cluster_id TEXT NOT NULL
    )
    """,
    # Users that were changed in this copy while the broker was stopped: the cluster is told.
    "users_changed_offline": """
    CREATE TABLE users_changed_offline (
        name TEXT PRIMARY KEY NOT NULL
    ) WITHOUT ROWID
    """,
    "local_replicas": """
    CREATE TABLE local_replicas (
        topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
        partition INTEGER NOT NULL,
        PRIMARY KEY (topic, partition)
    ) WITHOUT ROWID
    """,
}


def format_of(user_version: int) -> str:
    """The data's version as the catalog knows it: 1.0 is the last schema, those before it count."""
    return "1.0" if user_version == len(SCHEMA) else f"0.{user_version}"
