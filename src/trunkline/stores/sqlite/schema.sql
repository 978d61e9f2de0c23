-- The latest schema, version 1. A change of it is also a file in migrations/ that
-- leads there from the version before; a test compares the two.

-- Scopes, interned: every task and every index entry would carry the texts otherwise.
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    UNIQUE (agent, tenant, principal)
);

-- Names of the nodes that ever owned a task.
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- Heads. The last sequence is not here: it is that of the last event or, where all
-- were pruned, of the snapshot, so that an artifact chunk leaves the head alone.
CREATE TABLE tasks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL,
    context TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    node INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    -- By codes.py: 1 and 2 have work to do, 3 to 6 are terminal.
    state INTEGER NOT NULL,
    status_ms INTEGER NOT NULL
);
CREATE INDEX tasks_by_status ON tasks (scope, status_ms, key);
CREATE INDEX tasks_by_state ON tasks (scope, state, status_ms, key);
CREATE INDEX tasks_by_context ON tasks (scope, context, status_ms, key, state);
CREATE INDEX tasks_to_do ON tasks (key, node) WHERE state IN (1, 2);
CREATE INDEX tasks_ended ON tasks (status_ms, key) WHERE state IN (3, 4, 5, 6);

CREATE TABLE events (
    task INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (task, seq)
) WITHOUT ROWID;

-- Apart from the heads, for a change of state would rewrite a row with all it holds.
-- Artifacts come last: reading the columns before does not touch their pages.
CREATE TABLE snapshots (
    task INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    artifacts BLOB NOT NULL
);

CREATE TABLE idempotency (
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    task INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_task ON idempotency (task);

-- How many tasks a scope has in a state: COUNT(*) takes longer the more there are.
CREATE TABLE counts (
    scope INTEGER NOT NULL,
    state INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (scope, state)
) WITHOUT ROWID;
