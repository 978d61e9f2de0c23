-- Every statement of the store. `-- name: x` starts one; the comment below it says what
-- it is for. Loaded by statements.py.

-- name: insert_task
-- The head of a new task.
INSERT INTO tasks (key, id, scope, context, created_ms, node, epoch, state, status_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_head
-- A change of status.
UPDATE tasks SET state = ?, status_ms = ? WHERE key = ?;

-- name: insert_event
INSERT INTO events (task, seq, kind, body) VALUES (?, ?, ?, ?);

-- name: put_snapshot
REPLACE INTO snapshots (task, seq, body, artifacts) VALUES (?, ?, ?, ?);

-- name: insert_idempotency
INSERT INTO idempotency (scope, key, task, digest) VALUES (?, ?, ?, ?);

-- name: add_count
INSERT INTO counts (scope, state, n) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n;

-- name: insert_scope
INSERT INTO scopes (agent, tenant, principal) VALUES (?, ?, ?);

-- name: find_scope
SELECT id FROM scopes WHERE agent = ? AND tenant = ? AND principal = ?;

-- name: insert_node
INSERT INTO nodes (name) VALUES (?);

-- name: find_node
SELECT id FROM nodes WHERE name = ?;

-- name: last_key
SELECT coalesce(max(key), 0) FROM tasks;

-- name: find_head
-- What the writer checks appends against.
SELECT t.key, t.scope, t.epoch, t.state, t.status_ms,
    coalesce(
        (SELECT max(e.seq) FROM events AS e WHERE e.task = t.key),
        (SELECT s.seq FROM snapshots AS s WHERE s.task = t.key),
        0
    )
FROM tasks AS t WHERE t.id = ?;

-- name: find_key
-- The number of a task, by its public id.
SELECT key FROM tasks WHERE id = ?;

-- name: has_idempotency
SELECT 1 FROM idempotency WHERE scope = ? AND key = ?;

-- name: get_task
SELECT t.key, t.id, t.context, t.state, t.status_ms, t.created_ms, t.epoch, n.name,
    s.seq, s.body, s.artifacts
FROM tasks AS t
JOIN nodes AS n ON n.id = t.node
LEFT JOIN snapshots AS s ON s.task = t.key
WHERE t.id = ? AND t.scope = ?;

-- name: get_claimed
-- One task with its scope, for the node that has just claimed it.
SELECT t.key, t.id, t.context, t.state, t.status_ms, t.created_ms, t.epoch, n.name,
    s.seq, s.body, s.artifacts, c.agent, c.tenant, c.principal
FROM tasks AS t
JOIN nodes AS n ON n.id = t.node
JOIN scopes AS c ON c.id = t.scope
LEFT JOIN snapshots AS s ON s.task = t.key
WHERE t.key = ?;

-- name: get_tail
-- The journal of one task after its snapshot.
SELECT seq, kind, body FROM events WHERE task = ? AND seq > ? ORDER BY seq;

-- name: get_entries
-- One page of a journal.
SELECT seq, kind, body FROM events WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: get_idempotency
SELECT i.digest, t.id FROM idempotency AS i JOIN tasks AS t ON t.key = i.task
WHERE i.scope = ? AND i.key = ?;

-- name: page
-- One page of a list, most recent status first. The braces are filled in by reads.py:
-- the columns of the artifacts and the filters that one index serves.
SELECT t.key, t.id, t.context, t.state, t.status_ms, t.created_ms, t.epoch, n.name,
    s.seq, s.body, {artifacts},
    (SELECT max(e.seq) FROM events AS e WHERE e.task = t.key)
FROM tasks AS t
JOIN nodes AS n ON n.id = t.node
LEFT JOIN snapshots AS s ON s.task = t.key
WHERE {filters}
ORDER BY t.status_ms DESC, t.key DESC
LIMIT :limit;

-- name: total_by_counter
SELECT coalesce(sum(n), 0) FROM counts WHERE scope = :scope;

-- name: total_of_state_by_counter
SELECT coalesce(sum(n), 0) FROM counts WHERE scope = :scope AND state = :state;

-- name: total_by_index
-- For filters that no counter serves.
SELECT count(*) FROM tasks AS t WHERE {filters};

-- name: find_to_do
-- Tasks that a node could work on, oldest first, with their owners.
SELECT t.key, t.id, n.name FROM tasks AS t JOIN nodes AS n ON n.id = t.node
WHERE t.state IN (1, 2) ORDER BY t.key;

-- name: find_owner
SELECT t.key, t.id, n.name FROM tasks AS t JOIN nodes AS n ON n.id = t.node WHERE t.id = ?;

-- name: take_over
UPDATE tasks SET node = ?, epoch = epoch + 1 WHERE key = ?;

-- name: find_ended
SELECT key, id, scope, state FROM tasks
WHERE state IN (3, 4, 5, 6) AND status_ms < ? ORDER BY status_ms LIMIT ?;

-- name: delete_task
DELETE FROM tasks WHERE key = ?;

-- name: delete_events
DELETE FROM events WHERE task = ?;

-- name: delete_snapshot
DELETE FROM snapshots WHERE task = ?;

-- name: delete_idempotency
DELETE FROM idempotency WHERE task = ?;

-- name: prune_journal
-- Entries that the snapshot covers, up to a sequence.
DELETE FROM events WHERE task = :task AND seq <= min(
    :up_to, coalesce((SELECT s.seq FROM snapshots AS s WHERE s.task = :task), 0)
);
