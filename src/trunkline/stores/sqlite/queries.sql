-- Every statement of the store. `-- name: x` starts one; the comment below it says what
-- it is for. Loaded by statements.py. A statement that ends in `VALUES {rows}` is
-- written for as many rows as there are; braces elsewhere are filled in by statements.py.

-- name: insert_tasks
-- Heads of new tasks. OR FAIL, because the writer rolls the whole transaction back when a row is
-- refused: otherwise SQLite copies every page before a statement of several rows changes it, to a
-- temporary file beyond 64 KB, so that it can undo the statement alone.
INSERT OR FAIL INTO tasks (key, id, scope, context, created_ms, state, status_ms)
VALUES {rows};

-- name: update_heads
-- Changes of status: key, state and time of each task.
UPDATE tasks SET state = changed.column2, status_ms = changed.column3
FROM (VALUES {rows}) AS changed WHERE key = changed.column1;

-- name: insert_events
INSERT OR FAIL INTO events (place, kind, body, committed_ms) VALUES {rows};

-- name: put_snapshots
REPLACE INTO snapshots (task, seq, body, artifacts) VALUES {rows};

-- name: add_counts
INSERT INTO counts (state, scope, n) VALUES {rows}
ON CONFLICT (state, scope) DO UPDATE SET n = n + excluded.n;

-- name: insert_scope
INSERT INTO scopes (agent, tenant, principal) VALUES (?, ?, ?);

-- name: find_scope
SELECT id FROM scopes WHERE agent = ? AND tenant = ? AND principal = ?;

-- name: last_key
SELECT coalesce(max(key), 0) FROM tasks;

-- name: find_head
-- The head that the writer checks an append against.
SELECT t.key, t.scope, t.state, t.status_ms,
    coalesce(
        (
            SELECT max(e.place) & 0xFFFFFF FROM events AS e
            WHERE e.place BETWEEN t.key << 24 AND t.key << 24 | 0xFFFFFF
        ),
        (SELECT s.seq FROM snapshots AS s WHERE s.task = t.key),
        0
    )
FROM tasks AS t WHERE t.id = ?;

-- name: find_key
-- The number of a task, by its public id.
SELECT key FROM tasks WHERE id = ?;

-- name: get_task
-- With the last sequence of the journal, which spares most tasks a look at their tail. The
-- snapshot of a task that has ended holds all of it, which spares a page as well.
SELECT t.key, t.id, t.context, t.state, t.status_ms, t.created_ms,
    s.seq, s.body, s.artifacts,
    CASE WHEN t.state > 4 AND s.seq IS NOT NULL THEN s.seq ELSE (
        SELECT max(e.place) & 0xFFFFFF FROM events AS e
        WHERE e.place BETWEEN t.key << 24 AND t.key << 24 | 0xFFFFFF
    ) END
FROM tasks AS t
LEFT JOIN snapshots AS s ON s.task = t.key
WHERE t.id = ? AND t.scope = ?;

-- name: get_by_key
-- One task with its scope, whoever its caller is.
SELECT t.key, t.id, t.context, t.state, t.status_ms, t.created_ms,
    s.seq, s.body, s.artifacts, c.agent, c.tenant, c.principal
FROM tasks AS t
JOIN scopes AS c ON c.id = t.scope
LEFT JOIN snapshots AS s ON s.task = t.key
WHERE t.key = ?;

-- name: get_entries
-- Rows of a journal, between two places. Each has at least one of the wanted entries.
SELECT place, kind, body, committed_ms FROM events
WHERE place > ? AND place <= ? ORDER BY place LIMIT ?;

-- name: page
-- One page of a list, with the last sequence of each journal. In no certain order, because
-- SQLite would copy the snapshots to sort them.
SELECT t.key, t.id, t.context, t.state, t.status_ms, t.created_ms,
    s.seq, s.body, {artifacts},
    (
        SELECT max(e.place) & 0xFFFFFF FROM events AS e
        WHERE e.place BETWEEN t.key << 24 AND t.key << 24 | 0xFFFFFF
    )
FROM ({keys} ORDER BY status_ms DESC, key DESC LIMIT :limit) AS p
CROSS JOIN tasks AS t ON t.key = p.key
LEFT JOIN snapshots AS s ON s.task = t.key;

-- name: page_keys
-- The tasks of a page; several of these are joined by UNION ALL.
SELECT key, status_ms FROM tasks INDEXED BY {index} WHERE {filters};

-- name: get_counts
-- How many tasks there are, by state.
SELECT state, n FROM counts
WHERE state IN (0, 1, 2, 3, 4, 5, 6, 7, 8) AND scope = :scope AND n > 0;

-- name: get_places
-- Where there are tasks of all callers, and how many.
SELECT c.scope, c.state, c.n, s.agent, s.tenant, s.principal
FROM counts AS c CROSS JOIN scopes AS s ON s.id = c.scope
WHERE c.n > 0
    AND :agent IN ('', s.agent) AND :principal IN ('', s.principal)
    AND (:tenant IS NULL OR s.tenant = :tenant)
    AND (:agents IS NULL OR s.agent IN (SELECT value FROM json_each(:agents)));

-- name: get_latest
-- The tasks of one such place that come next in a list.
SELECT status_ms, key FROM tasks INDEXED BY tasks_by_state
WHERE scope = :scope AND state = :state AND status_ms >= :from_ms
    AND (status_ms, key) < (:after_ms, :after_key)
ORDER BY status_ms DESC, key DESC LIMIT :limit;

-- name: get_conversation
-- The tasks of a scope in one context, which are few enough to be sorted.
SELECT status_ms, key, state FROM tasks INDEXED BY tasks_by_context
WHERE scope = :scope AND context = :context AND status_ms >= :from_ms;

-- name: count_recent
SELECT count(*) FROM tasks INDEXED BY tasks_by_state
WHERE scope = :scope AND state = :state AND status_ms >= :from_ms;

-- name: count_by_index
-- A total that no counter knows.
SELECT count(*) FROM tasks INDEXED BY {index} WHERE {filters};

-- name: get_unfinished
-- Tasks that have work to do, oldest first.
SELECT s.agent, s.tenant, s.principal, t.id FROM counts AS c
CROSS JOIN tasks AS t ON t.scope = c.scope AND t.state = c.state
JOIN scopes AS s ON s.id = c.scope
WHERE c.state IN (1, 2) AND c.n > 0
ORDER BY t.key;

-- name: get_scopes
SELECT DISTINCT s.agent, s.tenant, s.principal
FROM counts AS c CROSS JOIN scopes AS s ON s.id = c.scope WHERE c.n > 0;

-- name: get_ended
-- Where an agent has terminal tasks, and how many.
SELECT c.scope, c.state, c.n FROM counts AS c CROSS JOIN scopes AS s ON s.id = c.scope
WHERE c.state IN (5, 6, 7, 8) AND c.n > 0 AND s.agent = ?;

-- name: find_ended
-- Tasks of one such place that retention may forget, the longest ended first.
SELECT status_ms, key FROM tasks INDEXED BY tasks_by_state
WHERE scope = ? AND state = ? AND status_ms < ? ORDER BY status_ms, key LIMIT ?;

-- name: find_still_ended
-- One such task, before retention deletes it.
SELECT key, id, scope, state FROM tasks WHERE key = ? AND state > 4;

-- name: count_ended
SELECT count(*) FROM tasks INDEXED BY tasks_by_state
WHERE scope = ? AND state = ? AND status_ms < ?;

-- name: delete_task
DELETE FROM tasks WHERE key = ?;

-- name: delete_events
DELETE FROM events WHERE place BETWEEN :task << 24 AND :task << 24 | 0xFFFFFF;

-- name: delete_snapshot
DELETE FROM snapshots WHERE task = ?;

-- name: find_folded
-- The number of a task, and up to where its snapshot goes.
SELECT t.key, coalesce((SELECT s.seq FROM snapshots AS s WHERE s.task = t.key), 0)
FROM tasks AS t WHERE t.id = ?;

-- name: delete_entries
DELETE FROM events WHERE place BETWEEN ? AND ?;

-- name: replace_entries
UPDATE events SET place = ?, kind = ?, body = ?, committed_ms = ? WHERE place = ?;

-- name: get_scope
-- The scope of a task.
SELECT s.agent, s.tenant, s.principal FROM tasks AS t JOIN scopes AS s ON s.id = t.scope
WHERE t.id = ?;

-- name: find_tasks
-- All tasks, for a check.
SELECT key, id FROM tasks WHERE key > ? ORDER BY key LIMIT ?;

-- name: get_tasks_after
-- All tasks in the order of their creation, for a copy.
SELECT t.key, s.agent, s.tenant, s.principal, t.id
FROM tasks AS t JOIN scopes AS s ON s.id = t.scope
WHERE t.key > ? ORDER BY t.key LIMIT ?;

-- name: get_records_after
-- All records in the order of their keys, for a copy.
SELECT r.kind, r.scope, r.id, r.version, r.body, r.count, r.due_ms, r.attempts, r.tags,
    t.id, CASE WHEN d.is_deferred THEN d.held_until_ms END
FROM records AS r
LEFT JOIN tasks AS t ON t.key = r.task
LEFT JOIN due_scopes AS d ON d.kind = r.kind AND d.scope = r.scope AND d.held_id = r.id
WHERE (r.kind, r.scope, r.id) > (?, ?, ?) ORDER BY r.kind, r.scope, r.id LIMIT ?;

-- name: count_tasks_without_scope
SELECT count(*) FROM tasks AS t WHERE NOT EXISTS (SELECT 1 FROM scopes WHERE id = t.scope);

-- name: count_events_without_task
SELECT count(*) FROM events AS e
WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE key = e.place >> 24);

-- name: count_snapshots_without_task
SELECT count(*) FROM snapshots AS s WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE key = s.task);

-- name: count_records
SELECT count(*) FROM records;

-- name: count_records_without_task
SELECT count(*) FROM records AS r
WHERE r.task IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE key = r.task);

-- name: count_tags_without_record
SELECT count(*) FROM record_tags AS t WHERE NOT EXISTS
    (SELECT 1 FROM records AS r WHERE r.kind = t.kind AND r.scope = t.scope AND r.id = t.id);

-- name: count_records_without_tag
SELECT count(*) FROM records AS r, json_each(r.tags) AS j WHERE NOT EXISTS
    (SELECT 1 FROM record_tags AS t
    WHERE t.kind = r.kind AND t.tag = j.value AND t.scope = r.scope AND t.id = r.id);

-- name: count_due_without_scope
SELECT count(*) FROM records AS r WHERE r.due_ms IS NOT NULL AND NOT EXISTS
    (SELECT 1 FROM due_scopes AS d WHERE d.kind = r.kind AND d.scope = r.scope);

-- name: find_wrong_counts
-- Wrong counters of tasks: scope, state, counter, number of tasks.
SELECT scope, state, sum(kept), sum(there) FROM (
    SELECT scope, state, n AS kept, 0 AS there FROM counts
    UNION ALL
    SELECT scope, state, 0, count(*) FROM tasks GROUP BY scope, state
) GROUP BY scope, state HAVING sum(kept) <> sum(there);

-- name: last_value
SELECT max(
    (SELECT coalesce(max(value), 0) FROM large_values),
    (SELECT coalesce(max(value), 0) FROM loose_values)
);

-- name: insert_loose_value
INSERT INTO loose_values (value) VALUES (?);

-- name: insert_slice
INSERT INTO slices (place, body) VALUES (?, ?);

-- name: insert_large_value
INSERT INTO large_values (value, id, task, size) VALUES (?, ?, ?, ?);

-- name: delete_loose_value
DELETE FROM loose_values WHERE value = ?;

-- name: loosen_values
-- The values of a task that is about to be deleted.
INSERT INTO loose_values (value) SELECT value FROM large_values WHERE task = ?;

-- name: delete_large_values
DELETE FROM large_values WHERE task = ?;

-- name: loosen_snapshot
-- The slices of a snapshot that is about to be replaced.
INSERT INTO loose_values (value)
SELECT value FROM large_values WHERE task = ? AND id GLOB 'snapshot:*';

-- name: delete_large_snapshot
DELETE FROM large_values WHERE task = ? AND id GLOB 'snapshot:*';

-- name: get_body
-- A body that was written in slices.
SELECT body FROM slices
WHERE place BETWEEN :value << 24 AND :value << 24 | 0xFFFFFF ORDER BY place;

-- name: get_loose_values
SELECT value FROM loose_values ORDER BY value LIMIT ?;

-- name: is_loose
SELECT 1 FROM loose_values WHERE value = ?;

-- name: delete_slices
-- Some slices of one value.
DELETE FROM slices WHERE place IN (
    SELECT place FROM slices
    WHERE place BETWEEN :value << 24 AND :value << 24 | 0xFFFFFF ORDER BY place LIMIT :limit
);

-- name: get_value_size
SELECT v.size FROM large_values AS v JOIN tasks AS t ON t.key = v.task
WHERE v.id = ? AND t.scope = ?;

-- name: get_slices
SELECT s.body FROM large_values AS v
CROSS JOIN slices AS s ON s.place BETWEEN v.value << 24 | :first AND v.value << 24 | 0xFFFFFF
WHERE v.id = :id ORDER BY s.place LIMIT :limit;
