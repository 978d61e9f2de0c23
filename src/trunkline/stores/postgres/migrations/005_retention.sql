-- Deletions of ended tasks and of large values, in steps that are short and never wait for an append;
-- the tables of months; the end of a journal.

CREATE INDEX loose_values_by_time ON loose_values (until);

-- Delete up to so many ended tasks of an agent with all they have, the longest ended first. With a
-- time only those whose status is older. Returns how many it deleted; at most 1000.
CREATE FUNCTION prune_1(p_agent text, p_before_ms int8, p_limit int4) RETURNS int4
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    before_ms int8 := coalesce(p_before_ms, 9223372036854775807);
    ended int8[];
    seqs int4[];
    gone int8[];
BEGIN
    SELECT array_agg(e.key), array_agg(e.last_seq) INTO ended, seqs
    FROM (
        SELECT f.key, f.last_seq
        FROM (
            SELECT c.scope, c.state FROM scopes AS s JOIN counts AS c ON c.scope = s.id
            WHERE s.agent = p_agent AND c.state IN (5, 6, 7, 8)
            GROUP BY c.scope, c.state HAVING sum(c.n) > 0
        ) AS p
        CROSS JOIN LATERAL (
            SELECT t.key, t.status_ms, t.last_seq FROM tasks AS t
            WHERE t.scope = p.scope AND t.state = p.state AND t.status_ms < before_ms
            ORDER BY t.status_ms, t.key LIMIT 1000
        ) AS f
        ORDER BY f.status_ms, f.key LIMIT least(p_limit, 1000)
    ) AS e;
    -- Tasks that an append has locked, or that one changed meanwhile, stay. From here on no append
    -- changes the others, and the statements below see all that belongs to them.
    SELECT array_agg(l.key) INTO gone
    FROM (
        SELECT t.key FROM unnest(ended, seqs) AS e (key, last_seq)
        JOIN tasks AS t ON t.key = e.key AND t.last_seq = e.last_seq
        WHERE t.state > 4 AND t.status_ms < before_ms
        FOR UPDATE OF t SKIP LOCKED
    ) AS l;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM forget_task_records_1(gone);
    DELETE FROM events WHERE task = ANY (gone);
    DELETE FROM snapshots WHERE task = ANY (gone);
    -- They may have many slices, which the sweep deletes once no reader has them open.
    WITH loosened AS (DELETE FROM large_values WHERE task = ANY (gone) RETURNING value)
    INSERT INTO loose_values (value, until)
    SELECT value, clock_timestamp() + interval '10 min' FROM loosened;
    -- Only another prune waits for the rows of writer 0.
    WITH deleted AS (DELETE FROM tasks WHERE key = ANY (gone) RETURNING scope, state)
    INSERT INTO counts AS c (state, scope, writer, n)
    SELECT d.state, d.scope, 0, -count(*) FROM deleted AS d
    GROUP BY d.state, d.scope ORDER BY d.state, d.scope
    ON CONFLICT (state, scope, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN cardinality(gone);
END $$;

-- Delete some slices of values that no task has. False when there are none. An append that takes a
-- value over waits for this and then finds that its time is over.
CREATE FUNCTION sweep_values_1(p_slices int4) RETURNS bool
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    due int8[];
BEGIN
    SELECT array_agg(v.value) INTO due
    FROM (
        SELECT value FROM loose_values WHERE until <= statement_timestamp()
        ORDER BY until LIMIT 16 FOR UPDATE SKIP LOCKED
    ) AS v;
    IF due IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM slices AS s USING (
        SELECT value, number FROM slices WHERE value = ANY (due)
        ORDER BY value, number LIMIT p_slices
    ) AS d
    WHERE s.value = d.value AND s.number = d.number;
    DELETE FROM loose_values AS v
    WHERE v.value = ANY (due) AND NOT EXISTS (SELECT FROM slices AS s WHERE s.value = v.value);
    RETURN true;
END $$;

-- Drop the tables of past months whose tasks are all gone: every read of a journal has to consider
-- each table. A month gets no new task once it is over. Where readers do not let a table go at once,
-- it stays until the next time, so that nothing waits behind this.
CREATE FUNCTION drop_months_1() RETURNS int4
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
DECLARE
    dropped int4 := 0;
    month record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(x'54524E4B'::int4, 2) THEN
        RETURN 0;
    END IF;
    FOR month IN
        SELECT c.relname AS name,
            month_key(to_date(right(c.relname, 7), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC')
                AS first_key
        FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'events'::regclass
    LOOP
        -- Not the last month: a batch that began in it may still be under way.
        IF month.first_key < month_key(clock_timestamp()) - (1::int8 << 40) AND NOT EXISTS (
            SELECT FROM tasks AS t
            WHERE t.key >= month.first_key AND t.key < month.first_key + (1::int8 << 40)
        ) THEN
            BEGIN
                EXECUTE format('DROP TABLE %I', month.name);
                dropped := dropped + 1;
            EXCEPTION WHEN lock_not_available THEN
                RETURN dropped;
            END;
        END IF;
    END LOOP;
    RETURN dropped;
END $$;

-- The rows of a journal behind a sequence. A function, so that a read whose snapshot covers the whole
-- journal (it asks with NULL) does not open the tables of all months. STABLE: it sees the state of
-- the statement that calls it.
CREATE FUNCTION tail_1(
    p_task int8, p_after int4, OUT seqs int4[], OUT kinds text[], OUT bodies bytea[]
) LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    SELECT array_agg(e.seq), array_agg(e.kind), array_agg(e.body) INTO seqs, kinds, bodies
    FROM (
        SELECT e.seq, e.kind, e.body FROM events AS e
        WHERE e.task = p_task AND e.seq > p_after ORDER BY e.seq
    ) AS e;
END $$;
