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

-- Keys, answers and notes become records; see ports/caller_records.py. The functions are those
-- of schema.py.
INSERT INTO records (kind, scope, id, version, count, attempts, task, body)
SELECT 'key.1', s.agent, array_text(s.tenant, s.principal, i.key), 1, 0, 0, i.task,
    key_body(i.digest, t.id)
FROM idempotency AS i
CROSS JOIN scopes AS s ON s.id = i.scope
CROSS JOIN tasks AS t ON t.key = i.task;

-- Keys of requests without a task were notes. One of a task that came later has a key already.
INSERT OR IGNORE INTO records (kind, scope, id, version, count, attempts, due_ms, body)
SELECT 'key.1', s.agent, array_text(s.tenant, s.principal, substr(n.name, 17)), 1, 0, 0, n.at_ms,
    CAST(n.body AS BLOB)
FROM notes AS n CROSS JOIN scopes AS s ON s.id = n.scope
WHERE n.context = '' AND n.name GLOB 'idempotency-key *';

INSERT INTO records (kind, scope, id, version, count, attempts, due_ms, body)
SELECT 'note.1', s.agent, array_text(s.tenant, s.principal, n.context, n.name), 1, 0, 0, n.at_ms,
    CAST(n.body AS BLOB)
FROM notes AS n CROSS JOIN scopes AS s ON s.id = n.scope
WHERE NOT (n.context = '' AND n.name GLOB 'idempotency-key *');

INSERT INTO records (kind, scope, id, version, count, attempts, due_ms, tags, body)
SELECT 'answer.1', s.agent, answer_id(e.at_ms, e.id, ''), 1, 0, 0, e.at_ms,
    array_text(array_text(s.tenant, s.principal), array_text(s.tenant, s.principal, e.context)), e.body
FROM exchanges AS e CROSS JOIN scopes AS s ON s.id = e.scope;

INSERT INTO record_tags (kind, tag, scope, id)
SELECT 'answer.1', t.value, r.scope, r.id FROM records AS r, json_each(r.tags) AS t
WHERE r.kind = 'answer.1';

INSERT INTO due_scopes (kind, scope, due_ms, held_until_ms, is_deferred)
SELECT kind, scope, min(due_ms), 0, 0 FROM records WHERE due_ms IS NOT NULL GROUP BY kind, scope;

DROP TABLE idempotency;
DROP TABLE notes;
DROP TABLE exchanges;

-- Tasks without an owner: the process that has the file open owns them all. SQLite before 3.35
-- cannot drop a column.
CREATE TABLE new_tasks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL,
    context TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    state INTEGER NOT NULL,
    status_ms INTEGER NOT NULL
);
INSERT INTO new_tasks (key, id, scope, context, created_ms, state, status_ms)
SELECT key, id, scope, context, created_ms, state, status_ms FROM tasks ORDER BY key;
DROP TABLE tasks;
ALTER TABLE new_tasks RENAME TO tasks;
CREATE INDEX tasks_by_state ON tasks (scope, state, status_ms);
CREATE INDEX tasks_by_context ON tasks (scope, context);
DROP TABLE nodes;
