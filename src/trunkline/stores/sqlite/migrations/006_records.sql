CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    count INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER,
    task INTEGER,
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
CREATE TABLE due_scopes (
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    held_id TEXT,
    held_until_ms INTEGER NOT NULL,
    is_deferred INTEGER NOT NULL,
    PRIMARY KEY (kind, scope)
) WITHOUT ROWID;
CREATE INDEX due_scopes_by_time ON due_scopes (kind, due_ms);
