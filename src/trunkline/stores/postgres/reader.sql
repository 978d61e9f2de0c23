-- Reads of tasks. `-- name: x` starts a statement; the comment below it says what it is for. Each
-- answer is one statement, so that it is one state of the store. Braces are filled in by reader.py:
-- {most} is a number, because PostgreSQL plans for a tenth of all rows where a LIMIT is a parameter.
-- Some rows are selected with LIMIT 1 or OFFSET 0 before they are joined: PostgreSQL would join whole
-- tables as long as it takes them for small.

-- name: get_task
-- One task of a caller: id, agent, tenant, principal.
SELECT t.key, t.id, t.scope, t.context, t.state, t.status_ms, t.created_ms, t.last_seq,
    s.seq, s.body, s.artifacts, e.seqs, e.kinds, e.bodies
FROM (SELECT * FROM tasks AS f WHERE f.id = $1 LIMIT 1) AS t
JOIN scopes AS c ON c.id = t.scope
LEFT JOIN LATERAL (SELECT * FROM snapshots AS f WHERE f.task = t.key LIMIT 1) AS s ON true
LEFT JOIN LATERAL {tail} AS e ON true
WHERE c.agent = $2 AND c.tenant = $3 AND c.principal = $4;

-- name: get_by_key
-- One task, whoever its caller is.
SELECT t.key, t.id, t.scope, t.context, t.state, t.status_ms, t.created_ms, t.last_seq,
    s.seq, s.body, s.artifacts, e.seqs, e.kinds, e.bodies
FROM tasks AS t
LEFT JOIN LATERAL (SELECT * FROM snapshots AS f WHERE f.task = t.key LIMIT 1) AS s ON true
LEFT JOIN LATERAL {tail} AS e ON true
WHERE t.key = $1;

-- name: tail
-- Part of other statements: the journal behind the snapshot, unless that covers all.
tail_1(CASE WHEN t.last_seq > coalesce(s.seq, 0) THEN t.key END, coalesce(s.seq, 0));

-- name: get_entries
-- The rows that hold the next entries of a journal: id, after, number of entries. A row has the
-- entries behind the row before it, and the first one is wanted whatever was pruned before it.
SELECT j.seq, j.kind, j.body, j.committed_ms
FROM (
    SELECT e.seq, e.kind, e.body, e.committed_ms, lag(e.seq) OVER (ORDER BY e.seq) AS previous
    FROM events AS e
    WHERE e.task = (SELECT t.key FROM tasks AS t WHERE t.id = $1) AND e.seq > $2::int4
    ORDER BY e.seq LIMIT {most}
) AS j
WHERE coalesce(j.previous, $2) - $2 < $3::int4
ORDER BY j.seq;

-- name: get_owner
SELECT c.agent, c.tenant, c.principal
FROM (SELECT f.scope FROM tasks AS f WHERE f.id = $1 LIMIT 1) AS t
JOIN scopes AS c ON c.id = t.scope;

-- name: get_key
SELECT key FROM tasks WHERE id = $1;

-- name: page
-- A page of tasks, most recent status first, and the total. Artifacts only where $1 says so; $2 is
-- the number of tasks. Then who ($3 to $5), states ($6), after which task ($7, $8), since when ($9).
-- Each state of a caller is in order in its index.
WITH places AS MATERIALIZED ({places}),
counted AS MATERIALIZED ({counted}),
page AS MATERIALIZED (
    SELECT f.key, f.status_ms FROM places AS p
    CROSS JOIN LATERAL (
        SELECT t.key, t.status_ms FROM tasks AS t
        WHERE t.scope = p.scope AND t.state = p.state AND t.status_ms >= $9::int8
            AND (t.status_ms, t.key) < ($7::int8, $8::int8)
        ORDER BY t.status_ms DESC, t.key DESC LIMIT {most}
    ) AS f
    ORDER BY f.status_ms DESC, f.key DESC LIMIT $2::int8
)
{rows};

-- name: page_of_context
-- The same within a context ($10), which is a conversation: few enough tasks to be sorted.
WITH conversation AS MATERIALIZED (
    SELECT t.key, t.status_ms, t.state FROM tasks AS t
    WHERE t.context = $10::text AND t.scope = (
        SELECT id FROM scopes WHERE agent = $3 AND tenant = $4 AND principal = $5
    )
),
wanted AS MATERIALIZED (
    SELECT c.key, c.status_ms FROM conversation AS c
    WHERE c.state = ANY ($6::int2[]) AND c.status_ms >= $9::int8
),
counted AS (SELECT count(*) AS n FROM wanted),
page AS MATERIALIZED (
    SELECT w.key, w.status_ms FROM wanted AS w WHERE (w.status_ms, w.key) < ($7::int8, $8::int8)
    ORDER BY w.status_ms DESC, w.key DESC LIMIT $2::int8
)
{rows};

-- name: page_of_context_of_all
-- The same for all callers, or for some ($10 is their agents), within a context ($11).
WITH conversation AS MATERIALIZED (
    SELECT t.key, t.status_ms, t.state FROM scopes AS s
    CROSS JOIN LATERAL (
        SELECT f.key, f.status_ms, f.state FROM tasks AS f
        WHERE f.scope = s.id AND f.context = $11::text OFFSET 0
    ) AS t
    WHERE $3::text IN ('', s.agent) AND $5::text IN ('', s.principal)
        AND coalesce(s.tenant = $4::text, true) AND coalesce(s.agent = ANY ($10::text[]), true)
),
wanted AS MATERIALIZED (
    SELECT c.key, c.status_ms FROM conversation AS c
    WHERE c.state = ANY ($6::int2[]) AND c.status_ms >= $9::int8
),
counted AS (SELECT count(*) AS n FROM wanted),
page AS MATERIALIZED (
    SELECT w.key, w.status_ms FROM wanted AS w WHERE (w.status_ms, w.key) < ($7::int8, $8::int8)
    ORDER BY w.status_ms DESC, w.key DESC LIMIT $2::int8
)
{rows};

-- name: no_tail
-- In place of the tail, where nobody asks for it.
(SELECT NULL::int4[] AS seqs, NULL::text[] AS kinds, NULL::bytea[] AS bodies);

-- name: rows
-- Part of the three above.
SELECT total.n, t.key, t.id, t.scope, t.context, t.state, t.status_ms, t.created_ms, t.last_seq,
    s.seq, s.body, CASE WHEN $1::bool THEN s.artifacts ELSE '' END, e.seqs, e.kinds, e.bodies
FROM (SELECT coalesce(sum(c.n), 0)::int8 AS n FROM counted AS c) AS total
LEFT JOIN page AS p ON true
LEFT JOIN LATERAL (SELECT * FROM tasks AS f WHERE f.key = p.key LIMIT 1) AS t ON true
LEFT JOIN LATERAL (SELECT * FROM snapshots AS f WHERE f.task = p.key LIMIT 1) AS s ON true
LEFT JOIN LATERAL {tail} AS e ON true
ORDER BY p.status_ms DESC, p.key DESC;

-- name: places_of_caller
-- Part of a page: the states in which a caller has tasks, and how many.
SELECT c.scope, c.state, sum(c.n) AS n FROM counts AS c
WHERE c.state = ANY ($6::int2[]) AND c.scope = (
    SELECT id FROM scopes WHERE agent = $3 AND tenant = $4 AND principal = $5
)
GROUP BY c.scope, c.state HAVING sum(c.n) > 0;

-- name: places_of_all
-- Part of a page: the same for all callers, or for some. An empty agent or principal means any, and
-- so does a tenant that is NULL; so do agents ($10) that are NULL.
SELECT c.scope, c.state, sum(c.n) AS n FROM counts AS c JOIN scopes AS s ON s.id = c.scope
WHERE c.state = ANY ($6::int2[])
    AND $3::text IN ('', s.agent) AND $5::text IN ('', s.principal)
    AND coalesce(s.tenant = $4::text, true) AND coalesce(s.agent = ANY ($10::text[]), true)
GROUP BY c.scope, c.state HAVING sum(c.n) > 0;

-- name: counted_all
-- Part of a page: the total by the counters.
SELECT p.n FROM places AS p;

-- name: counted_recent
-- Part of a page: the total since a time, which no counter has.
SELECT f.n FROM places AS p
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM tasks AS t
    WHERE t.scope = p.scope AND t.state = p.state AND t.status_ms >= $9::int8
) AS f;

-- name: get_unfinished
-- Tasks that have work to do, the oldest first.
SELECT s.agent, s.tenant, s.principal, t.id
FROM (
    SELECT c.state, c.scope FROM counts AS c WHERE c.state IN (1, 2)
    GROUP BY c.state, c.scope HAVING sum(c.n) > 0
) AS p
JOIN scopes AS s ON s.id = p.scope
CROSS JOIN LATERAL (
    SELECT f.key, f.id FROM tasks AS f WHERE f.scope = p.scope AND f.state = p.state OFFSET 0
) AS t
ORDER BY t.key;

-- name: get_scopes
-- Scopes that have tasks.
SELECT s.agent, s.tenant, s.principal
FROM (SELECT c.scope FROM counts AS c GROUP BY c.scope HAVING sum(c.n) > 0) AS p
JOIN scopes AS s ON s.id = p.scope;

-- name: get_scopes_by_id
SELECT id, agent, tenant, principal FROM scopes WHERE id = ANY ($1::int4[]);

-- name: count_ended
-- Terminal tasks of an agent, by the counters.
SELECT coalesce(sum(c.n), 0)::int8 FROM counts AS c JOIN scopes AS s ON s.id = c.scope
WHERE c.state IN (5, 6, 7, 8) AND s.agent = $1;

-- name: count_ended_before
-- The same, of those whose status is older.
SELECT coalesce(sum(f.n), 0)::int8
FROM (
    SELECT c.state, c.scope FROM counts AS c JOIN scopes AS s ON s.id = c.scope
    WHERE c.state IN (5, 6, 7, 8) AND s.agent = $1
    GROUP BY c.state, c.scope HAVING sum(c.n) > 0
) AS p
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM tasks AS t
    WHERE t.scope = p.scope AND t.state = p.state AND t.status_ms < $2::int8
) AS f;

-- name: get_value_sizes
-- Large values of a caller: ids, agent, tenant, principal.
SELECT v.id, v.size
FROM (SELECT f.id, f.size, f.task FROM large_values AS f WHERE f.id = ANY ($1::text[]) OFFSET 0) AS v
CROSS JOIN LATERAL (SELECT f.scope FROM tasks AS f WHERE f.key = v.task LIMIT 1) AS t
JOIN scopes AS c ON c.id = t.scope
WHERE c.agent = $2 AND c.tenant = $3 AND c.principal = $4;

-- name: get_slices
-- Slices of a large value: id, first, number of slices.
SELECT s.body FROM slices AS s
WHERE s.value = (SELECT v.value FROM large_values AS v WHERE v.id = $1)
    AND s.number >= $2::int4 AND s.number < $2 + $3::int4
ORDER BY s.number;

-- name: get_body
-- Slices of a body that lies in slices: number of the value, first, number of slices. Also of a body
-- that was replaced just now: the sweep leaves it alone for a while.
SELECT s.body FROM slices AS s
WHERE s.value = $1::int8 AND s.number >= $2::int4 AND s.number < $2 + $3::int4
ORDER BY s.number;
