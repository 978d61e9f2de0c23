-- Retention and upkeep of the store, beside migrations/005_retention.sql. `-- name: x` starts a
-- statement.

-- name: prune
SELECT prune_1($1::text, $2::int8, $3::int4);

-- name: get_folded
-- The number of a task, and up to where its snapshot goes.
SELECT t.key, coalesce(s.seq, 0) FROM tasks AS t LEFT JOIN snapshots AS s ON s.task = t.key
WHERE t.id = $1;

-- name: get_next_row
-- The row of a journal with the entry behind a sequence.
SELECT seq, kind, body FROM events WHERE task = $1::int8 AND seq > $2::int4 ORDER BY seq LIMIT 1;

-- name: prune_journal
-- Delete the rows of a journal up to a sequence ($2), and replace one ($3) by a row with fewer
-- entries, unless another node has replaced it by one with even fewer.
WITH gone AS (DELETE FROM events WHERE task = $1::int8 AND seq <= $2::int4)
UPDATE events SET kind = $4::text, body = $5::bytea
WHERE task = $1 AND seq = $3::int4 AND octet_length(body) > octet_length($5::bytea);

-- name: sweep_values
SELECT sweep_values_1($1::int4);

-- name: add_months
-- The tables for this month and the next two.
SELECT add_month(clock_timestamp() + n * interval '1 month') FROM generate_series(0, 2) AS n;

-- name: drop_months
SELECT drop_months_1();

-- name: fold_counts
-- Add the counts of writers that are gone to those of writer 0.
WITH gone AS (
    DELETE FROM counts WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM counts AS c
        WHERE c.writer <> 0 AND NOT EXISTS (
            SELECT FROM writers AS w
            WHERE w.writer = c.writer AND w.used_at > clock_timestamp() - interval '1 day'
        )
        LIMIT 1000 FOR UPDATE SKIP LOCKED
    ))
    RETURNING state, scope, n
),
folded AS (
    INSERT INTO counts AS c (state, scope, writer, n)
    SELECT g.state, g.scope, 0, sum(g.n) FROM gone AS g
    GROUP BY g.state, g.scope ORDER BY g.state, g.scope
    ON CONFLICT (state, scope, writer) DO UPDATE SET n = c.n + excluded.n
)
SELECT count(*) FROM gone;

-- name: delete_empty_counts
DELETE FROM counts WHERE writer = 0 AND n = 0;

-- name: delete_old_writers
-- Writers that have not written for long, and so have no batch in doubt.
DELETE FROM writers WHERE used_at < clock_timestamp() - interval '7 days';
