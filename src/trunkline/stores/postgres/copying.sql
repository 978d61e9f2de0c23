-- Statements of `trunkline db copy`, which goes through all tasks and all records. `-- name: x` starts
-- one; see stores/statements.py.

-- name: lock
-- One copy at a time uses a database, for as long as its session lasts.
SELECT pg_try_advisory_lock(%s, %s);

-- name: unlock
SELECT pg_advisory_unlock(%s, %s);

-- name: get_tasks_after
SELECT t.key, s.agent, s.tenant, s.principal, t.id
FROM tasks AS t JOIN scopes AS s ON s.id = t.scope
WHERE t.key > %s ORDER BY t.key LIMIT %s;

-- name: get_records_after
SELECT r.kind, r.scope, r.id, r.version, r.body, r.count, r.due_ms, r.attempts, r.tags,
    t.id, d.held_until_ms
FROM records AS r
LEFT JOIN tasks AS t ON t.key = r.task
LEFT JOIN due_scopes AS d ON d.kind = r.kind AND d.scope = r.scope AND d.held_id = r.id
    AND d.held_until_ms > now_ms()
WHERE (r.kind, r.scope, r.id) > (%s, %s, %s)
ORDER BY r.kind, r.scope, r.id LIMIT %s;

-- name: delete_tags
DELETE FROM record_tags AS t
USING unnest(%s::text[], %s::text[], %s::text[]) AS c (kind, scope, id)
WHERE t.kind = c.kind AND t.scope = c.scope AND t.id = c.id;

-- name: put_records
INSERT INTO records (kind, scope, id, version, count, attempts, due_ms, task, tags, body)
SELECT c.kind, c.scope, c.id, c.version, c.count, c.attempts, c.due_ms, t.key, c.tags, c.body
FROM unnest(
    %s::text[], %s::text[], %s::text[], %s::int8[], %s::int8[], %s::int4[], %s::int8[],
    %s::text[], %s::text[], %s::bytea[]
) AS c (kind, scope, id, version, count, attempts, due_ms, task, tags, body)
LEFT JOIN tasks AS t ON t.id = c.task
ON CONFLICT (kind, scope, id) DO UPDATE SET version = excluded.version, count = excluded.count,
    attempts = excluded.attempts, due_ms = excluded.due_ms, task = excluded.task,
    tags = excluded.tags, body = excluded.body;

-- name: put_tags
INSERT INTO record_tags (kind, tag, scope, id)
SELECT c.kind, t.tag, c.scope, c.id
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS c (kind, scope, id, tags),
    json_array_elements_text(c.tags::json) AS t (tag)
ON CONFLICT DO NOTHING;

-- name: put_due_scopes
INSERT INTO due_scopes AS d (kind, scope, due_ms)
SELECT c.kind, c.scope, min(c.due_ms)
FROM unnest(%s::text[], %s::text[], %s::int8[]) AS c (kind, scope, due_ms)
WHERE c.due_ms IS NOT NULL GROUP BY c.kind, c.scope
ON CONFLICT (kind, scope) DO UPDATE SET due_ms = least(d.due_ms, excluded.due_ms);

-- name: hold_scopes
UPDATE due_scopes AS d SET held_id = c.id, held_until_ms = c.held_until_ms
FROM unnest(%s::text[], %s::text[], %s::text[], %s::int8[]) AS c (kind, scope, id, held_until_ms)
WHERE d.kind = c.kind AND d.scope = c.scope AND c.held_until_ms > 0;
