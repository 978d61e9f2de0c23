-- What a check of the database looks at. `-- name: x` starts a statement.

-- name: has_schema
SELECT to_regclass('trunkline') IS NOT NULL;

-- name: get_version
SELECT version, min_code FROM trunkline;

-- name: begin_read
-- From here on to the end of the transaction every read sees the same state.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: end_read
ROLLBACK;

-- name: get_last_key
SELECT coalesce(max(key), 0) FROM tasks;

-- name: find_tasks
-- Tasks for a check: behind a key, up to another.
SELECT key, id FROM tasks WHERE key > $1::int8 AND key <= $2::int8 ORDER BY key LIMIT 200;

-- name: count_tasks_without_scope
SELECT count(*) FROM tasks AS t WHERE NOT EXISTS (SELECT FROM scopes AS s WHERE s.id = t.scope);

-- name: count_events_without_task
SELECT count(*) FROM events AS e WHERE NOT EXISTS (SELECT FROM tasks AS t WHERE t.key = e.task);

-- name: count_snapshots_without_task
SELECT count(*) FROM snapshots AS s WHERE NOT EXISTS (SELECT FROM tasks AS t WHERE t.key = s.task);

-- name: count_values_without_task
SELECT count(*) FROM large_values AS v WHERE NOT EXISTS (SELECT FROM tasks AS t WHERE t.key = v.task);

-- name: count_values_twice
-- Values of a task that the sweep would delete.
SELECT count(*) FROM large_values AS v JOIN loose_values AS l ON l.value = v.value;

-- name: count_slices_without_value
SELECT count(*) FROM slices AS s
WHERE NOT EXISTS (SELECT FROM large_values AS v WHERE v.value = s.value)
    AND NOT EXISTS (SELECT FROM loose_values AS v WHERE v.value = s.value);

-- name: count_records
SELECT count(*) FROM records;

-- name: count_records_without_task
SELECT count(*) FROM records AS r
WHERE r.task IS NOT NULL AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.key = r.task);

-- name: count_tags_without_record
SELECT count(*) FROM record_tags AS t WHERE NOT EXISTS (
    SELECT FROM records AS r
    WHERE r.kind = t.kind AND r.scope = t.scope AND r.id = t.id AND r.tags::jsonb ? t.tag
);

-- name: count_records_without_tag
SELECT count(*) FROM records AS r CROSS JOIN jsonb_array_elements_text(r.tags::jsonb) AS j (tag)
WHERE NOT EXISTS (
    SELECT FROM record_tags AS t
    WHERE t.kind = r.kind AND t.tag = j.tag AND t.scope = r.scope AND t.id = r.id
);

-- name: count_due_without_scope
SELECT count(*) FROM records AS r WHERE r.due_ms IS NOT NULL AND NOT EXISTS (
    SELECT FROM due_scopes AS d WHERE d.kind = r.kind AND d.scope = r.scope
);

-- name: find_wrong_counts
-- Wrong counters of tasks: scope, state, counter, number of tasks.
SELECT b.scope, b.state, sum(b.kept)::int8, sum(b.there)::int8
FROM (
    SELECT c.scope, c.state, c.n AS kept, 0 AS there FROM counts AS c
    UNION ALL
    SELECT t.scope, t.state, 0, count(*) FROM tasks AS t GROUP BY t.scope, t.state
) AS b
GROUP BY b.scope, b.state HAVING sum(b.kept) <> sum(b.there);

-- name: find_missing_months
-- This month and the next two, where the table is missing.
SELECT m.month
FROM (
    SELECT to_char((clock_timestamp() + n * interval '1 month') AT TIME ZONE 'UTC', 'YYYY_MM') AS month
    FROM generate_series(0, 2) AS n
) AS m
WHERE to_regclass('events_' || m.month) IS NULL;

-- name: find_invalid_indexes
SELECT c.relname::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace;

-- name: find_long_transactions
-- What keeps rows that were deleted or replaced from being cleaned away, for five minutes or longer:
-- what it is, and since when in seconds.
SELECT w.what, extract(epoch FROM clock_timestamp() - w.since)::int8
FROM (
    SELECT format('process %s (%s)', a.pid, coalesce(nullif(a.application_name, ''), a.usename)) AS what,
        a.xact_start AS since
    FROM pg_stat_activity AS a WHERE a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL
    UNION ALL
    SELECT format('prepared transaction %s', p.gid), p.prepared FROM pg_prepared_xacts AS p
) AS w
WHERE w.since < clock_timestamp() - interval '5 min' ORDER BY w.since;

-- name: find_idle_slots
-- Replication slots that nothing uses, and that keep such rows all the same.
SELECT s.slot_name::text FROM pg_replication_slots AS s
WHERE NOT s.active AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL);

-- name: count_synchronous_standbys
SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum');
