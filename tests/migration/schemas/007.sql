-- The latest schema. A change of it is also a file in migrations/ that
-- leads there from the version before; a test compares the two.

-- Scopes, interned: every task and every index entry would carry the texts otherwise.
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    UNIQUE (agent, tenant, principal)
);

-- Heads. The last sequence is not here: it is that of the last event or, where all
-- were pruned, of the snapshot, so that an artifact chunk leaves the head alone.
CREATE TABLE tasks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL,
    context TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    -- By rows.py: 1 and 2 have work to do, those above 4 are terminal.
    state INTEGER NOT NULL,
    status_ms INTEGER NOT NULL
);
-- Lists, and retention. A list without a state merges the states that have tasks; that
-- spares an index which every change of status would move.
CREATE INDEX tasks_by_state ON tasks (scope, state, status_ms);
CREATE INDEX tasks_by_context ON tasks (scope, context);

-- The journal. The place is `task << 24 | seq`: an entry lies beside those of its task,
-- and a whole page can hold one entry, as it could not in a table without rowid. Entries
-- that were committed together share the row of the last one, without a kind: see
-- rows.py.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    -- The time of the commit; NULL for rows from before there was this column.
    committed_ms INTEGER
);

-- Apart from the heads, for a change of state would rewrite a row with all it holds.
-- Artifacts come last: reading the columns before does not touch their pages.
CREATE TABLE snapshots (
    task INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    artifacts BLOB NOT NULL
);

-- How many tasks a scope has in a state: COUNT(*) takes longer the more there are.
-- The state comes first, so that a start finds the scopes that have work to do.
CREATE TABLE counts (
    state INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (state, scope)
) WITHOUT ROWID;

-- What is too large for one commit: texts, by the id that entries and snapshots refer to, and
-- bodies of these two, which have the number of the value in place of the body.
CREATE TABLE large_values (
    value INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task INTEGER NOT NULL,
    -- Of all slices together.
    size INTEGER NOT NULL
);
CREATE INDEX large_values_by_task ON large_values (task);

-- Their contents. The place is `value << 24 | number`, with numbers from 0.
CREATE TABLE slices (
    place INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

-- Values that nothing refers to: being written, or left over by a crash or by retention. The
-- store deletes their slices little by little.
CREATE TABLE loose_values (
    value INTEGER PRIMARY KEY
);

-- Records: durable things that are not tasks. The rows are numbered, because bodies may be long
-- and a table without rowid would hold them inside its tree.
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    count INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER,
    -- The task that it goes with.
    task INTEGER,
    -- JSON array of texts, or NULL for none.
    tags TEXT,
    body BLOB NOT NULL,
    UNIQUE (kind, scope, id)
);
CREATE INDEX records_by_task ON records (task) WHERE task IS NOT NULL;
CREATE INDEX records_by_due ON records (kind, scope, due_ms, id) WHERE due_ms IS NOT NULL;

CREATE TABLE record_tags (
    kind TEXT NOT NULL,
    tag TEXT NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (kind, tag, scope, id)
) WITHOUT ROWID;

-- One row per scope with due records: a claim goes through these, so that the many records of
-- one scope delay no other. `due_ms` is not later than the first due time of the scope. After a
-- claim it is at least the time when the claim ended, so that scopes take turns.
CREATE TABLE due_scopes (
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    -- The record that is claimed, and until when.
    held_id TEXT,
    held_until_ms INTEGER NOT NULL,
    -- Whether a handler put it off. A claim ends with its process, and this does not.
    is_deferred INTEGER NOT NULL,
    PRIMARY KEY (kind, scope)
) WITHOUT ROWID;
CREATE INDEX due_scopes_by_time ON due_scopes (kind, due_ms);
