-- `append_1`: commits one batch of appends and of other changes of records, in one call.
--
-- Every item of the batch has a slot: appends have the slots from 1 on, sorted by lane and task;
-- groups of changes that belong to no append have those behind. `codes` tells per slot: 0 done,
-- -1 another node owns the lane, -2 the task is not at the expected sequence (`seen` has the one
-- that it is at), k > 0 refused by change k of the batch (`seen` has the version or the count of
-- its record, 0 for none). A refused slot leaves no trace, and the others stand. `epochs` has
-- the epoch of a lane whose append came with epoch 0. `skipped` has the optional groups that were
-- refused. Each of the four is NULL where there is nothing to tell.
--
-- A writer that lost the connection calls again with the same number of the batch: that waits for a
-- call still under way, and gives the answer of the first one. A number below the last one does
-- nothing, because the writer went on since.
--
-- Locks, each in sorted order, so that two batches never wait for each other: the writer, lanes,
-- tasks, keys of records.
CREATE FUNCTION append_1(
    p_writer int8, p_batch int8, p_node int8, p_new int4,
    -- Appends. `a_was` is the expected sequence, and -n for the n-th task to be created; `a_seq` is
    -- the last one. Scope, context and creation are those of new tasks.
    a_lane text[], a_epoch int8[], a_task text[], a_was int4[], a_seq int4[],
    a_state int2[], a_status_ms int8[], a_scope int4[], a_context text[], a_created_ms int8[],
    -- Rows of journals, each with the slot of its append.
    e_slot int4[], e_seq int4[], e_kind text[], e_body bytea[],
    s_slot int4[], s_seq int4[], s_body bytea[], s_artifacts bytea[],
    -- Large values, whose slices are written.
    l_slot int4[], l_value int8[], l_id text[], l_size int8[],
    -- Groups that belong to no append, and the changes of all groups.
    p_groups int4,
    c_slot int4[], c_group int4[], c_op int2[], c_kind text[], c_scope text[], c_id text[],
    c_expected int8[], c_number int8[], c_body bytea[], c_tags text[],
    OUT epochs int8[], OUT codes int4[], OUT seen int8[], OUT skipped int4[]
) LANGUAGE plpgsql
-- A plan that was made for empty tables would read all of them later. A plan made anew for each
-- batch takes longer than the batch.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_variable
DECLARE
    last_batch int8;
    -- Of each slot: the key of its task, and its scope and state before.
    keys int8[];
    scopes int4[];
    states int2[];
    -- Keys of new tasks, in the order of their creation.
    new_keys int8[];
    new_lanes text[];
    has_old bool;
    changes_state bool;
    is_refused bool := false;
    n int8;
BEGIN
    LOOP
        SELECT w.batch INTO last_batch FROM writers w WHERE w.writer = p_writer FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO writers (writer, batch, used_at) VALUES (p_writer, 0, clock_timestamp())
        ON CONFLICT DO NOTHING;
    END LOOP;
    IF p_batch <= last_batch THEN
        SELECT w.epochs, w.codes, w.found, w.skipped INTO epochs, codes, seen, skipped
        FROM writers w WHERE w.writer = p_writer AND w.batch = p_batch;
        RETURN;
    END IF;

    IF a_task IS NOT NULL THEN
        IF 0 = ANY (a_epoch) AND p_node <> 0 THEN
            -- A lane that no node owns. The other lanes of epoch 0 belong to this node already, or
            -- the append is refused.
            WITH made AS (
                INSERT INTO lanes (lane, owner, epoch)
                SELECT t.lane, p_node, nextval('epochs')
                FROM (
                    SELECT DISTINCT t.lane FROM unnest(a_lane, a_epoch) AS t (lane, epoch)
                    WHERE t.epoch = 0 AND t.lane <> '' ORDER BY t.lane
                ) AS t
                WHERE (
                    SELECT m.dead_at IS NULL AND m.lease_until > clock_timestamp()
                    FROM nodes AS m WHERE m.node = p_node
                )
                ON CONFLICT DO NOTHING RETURNING lane
            )
            SELECT array_agg(made.lane) INTO new_lanes FROM made;
        END IF;
        IF p_new > 0 THEN
            new_keys := ARRAY(
                SELECT m.first | nextval('task_numbers')
                FROM month_key(statement_timestamp()) AS m (first), generate_series(1, p_new)
            );
        END IF;
        -- The fence: whoever takes one of these lanes waits for the end of this batch, and the
        -- owner is looked at again after a wait for whoever took one. IS NOT DISTINCT FROM uses no
        -- index: where lanes were few when statistics were made, PostgreSQL would go through all
        -- lanes of the owner for each of them.
        SELECT
            array_agg(CASE WHEN t.epoch = 0 THEN coalesce(l.epoch, 0) ELSE 0 END ORDER BY t.i),
            array_agg(
                CASE
                    WHEN t.lane <> '' AND l.epoch IS NULL THEN -1
                    WHEN t.was > 0 AND x.last_seq IS DISTINCT FROM t.was THEN -2
                    ELSE 0
                END ORDER BY t.i
            ),
            array_agg(coalesce(x.last_seq, 0)::int8 ORDER BY t.i),
            array_agg(
                CASE WHEN t.was < 0 THEN new_keys[-t.was] ELSE x.key END ORDER BY t.i
            ),
            array_agg(coalesce(x.scope, t.scope) ORDER BY t.i),
            array_agg(x.state ORDER BY t.i),
            bool_or(t.was > 0), bool_or(x.state IS DISTINCT FROM t.state),
            bool_or(t.lane <> '' AND l.epoch IS NULL
                OR t.was > 0 AND x.last_seq IS DISTINCT FROM t.was)
        INTO epochs, codes, seen, keys, scopes, states, has_old, changes_state, is_refused
        FROM unnest(a_lane, a_epoch, a_task, a_was, a_state, a_scope) WITH ORDINALITY
            AS t (lane, epoch, task, was, state, scope, i)
        LEFT JOIN LATERAL (
            SELECT l.epoch FROM lanes AS l
            WHERE l.lane = t.lane AND l.owner IS NOT DISTINCT FROM p_node AND t.epoch IN (0, l.epoch)
            LIMIT 1 FOR SHARE
        ) AS l ON true
        LEFT JOIN LATERAL (
            SELECT x.key, x.scope, x.state, x.last_seq FROM tasks AS x
            WHERE x.id = t.task AND t.was > 0 AND (t.lane = '' OR l.epoch IS NOT NULL)
            LIMIT 1 FOR NO KEY UPDATE
        ) AS x ON true;

        IF p_new > 0 THEN
            INSERT INTO tasks (
                key, id, scope, context, lane, created_ms, status_ms, last_seq, state
            )
            SELECT t.key, t.id, t.scope, t.context,
                CASE WHEN t.state IN (1, 2) THEN nullif(t.lane, '') END,
                t.created_ms, t.status_ms, t.seq, t.state
            FROM unnest(
                keys, a_task, a_scope, a_context, a_lane, a_created_ms, a_status_ms, a_seq, a_state,
                a_was, codes
            ) AS t (key, id, scope, context, lane, created_ms, status_ms, seq, state, was, code)
            WHERE t.was < 0 AND t.code = 0
            ON CONFLICT (id) DO NOTHING;
            GET DIAGNOSTICS n = ROW_COUNT;
            IF is_refused OR n < p_new THEN
                -- Tasks of other appends have some of these ids.
                is_refused := true;
                SELECT
                    array_agg(CASE WHEN t.is_missing THEN -2 ELSE t.code END ORDER BY t.i),
                    array_agg(CASE WHEN t.is_missing THEN t.last_seq ELSE t.seen END ORDER BY t.i)
                INTO codes, seen
                FROM (
                    SELECT t.i, t.code, t.seen, coalesce(other.last_seq, 0)::int8 AS last_seq,
                        t.was < 0 AND t.code = 0 AND other.key IS DISTINCT FROM t.key AS is_missing
                    FROM unnest(a_task, keys, a_was, codes, seen) WITH ORDINALITY
                        AS t (id, key, was, code, seen, i)
                    LEFT JOIN LATERAL (
                        SELECT x.key, x.last_seq FROM tasks AS x WHERE x.id = t.id LIMIT 1
                    ) AS other ON true
                ) AS t;
            END IF;
        END IF;
    END IF;

    IF c_slot IS NOT NULL THEN
        IF p_groups > 0 THEN
            codes := codes || array_fill(0, ARRAY[p_groups]);
            seen := seen || array_fill(0::int8, ARRAY[p_groups]);
            keys := keys || array_fill(0::int8, ARRAY[p_groups]);
        END IF;
        SELECT r.codes, r.stored, r.skipped INTO codes, seen, skipped
        FROM change_records_1(
            keys, c_slot, c_group, c_op, c_kind, c_scope, c_id, c_expected, c_number, c_body, c_tags,
            codes, seen
        ) AS r;
        is_refused := codes <> array_fill(0, ARRAY[cardinality(codes)]);
        IF is_refused AND p_new > 0 THEN
            DELETE FROM tasks AS x
            USING unnest(keys, a_was, codes) AS t (key, was, code)
            WHERE x.key = t.key AND t.was < 0 AND t.code > 0;
        END IF;
    END IF;

    IF a_task IS NOT NULL THEN
        IF has_old THEN
            UPDATE tasks AS x SET last_seq = t.seq, state = t.state, status_ms = t.status_ms,
                lane = CASE WHEN t.state IN (1, 2) THEN nullif(t.lane, '') END
            FROM unnest(keys, a_was, a_seq, a_state, a_status_ms, a_lane, codes)
                AS t (key, was, seq, state, status_ms, lane, code)
            WHERE x.key = t.key AND t.was > 0 AND t.code = 0;
        END IF;
        IF e_slot IS NOT NULL THEN
            INSERT INTO events (task, seq, kind, body)
            SELECT keys[e.slot], e.seq, e.kind, e.body
            FROM unnest(e_slot, e_seq, e_kind, e_body) AS e (slot, seq, kind, body)
            WHERE codes[e.slot] = 0;
        END IF;
        IF l_slot IS NOT NULL THEN
            PERFORM add_large_values_1(
                array_agg(l.value), array_agg(l.id), array_agg(keys[l.slot]), array_agg(l.size)
            )
            FROM unnest(l_slot, l_value, l_id, l_size) AS l (slot, value, id, size)
            WHERE codes[l.slot] = 0;
        END IF;
        IF s_slot IS NOT NULL THEN
            INSERT INTO snapshots (task, seq, body, artifacts)
            SELECT keys[s.slot], s.seq, s.body, s.artifacts
            FROM unnest(s_slot, s_seq, s_body, s_artifacts) AS s (slot, seq, body, artifacts)
            WHERE codes[s.slot] = 0
            ON CONFLICT (task) DO UPDATE
            SET seq = excluded.seq, body = excluded.body, artifacts = excluded.artifacts;
        END IF;
        IF changes_state THEN
            INSERT INTO counts AS c (state, scope, writer, n)
            SELECT d.state, d.scope, p_writer, sum(d.n) FROM (
                SELECT t.scope, unnest(ARRAY[t.state, t.before]) AS state, unnest(ARRAY[1, -1]) AS n
                FROM unnest(scopes, a_state, states, codes) AS t (scope, state, before, code)
                WHERE t.code = 0 AND t.state IS DISTINCT FROM t.before
            ) AS d
            WHERE d.state IS NOT NULL
            GROUP BY d.state, d.scope HAVING sum(d.n) <> 0
            ORDER BY d.state, d.scope
            ON CONFLICT (state, scope, writer) DO UPDATE SET n = c.n + excluded.n;
        END IF;
        IF is_refused AND new_lanes IS NOT NULL THEN
            -- Nothing waits in them.
            DELETE FROM lanes AS l USING unnest(new_lanes) AS t (lane)
            WHERE l.lane = t.lane AND NOT EXISTS (
                SELECT FROM unnest(a_lane, codes) AS a (lane, code)
                WHERE a.lane = t.lane AND a.code = 0
            );
        END IF;
        IF NOT 0 = ANY (a_epoch) OR p_node = 0 THEN
            epochs := NULL;
        END IF;
    END IF;
    IF NOT is_refused THEN
        codes := NULL;
        seen := NULL;
    END IF;
    UPDATE writers AS w
    SET batch = p_batch, used_at = clock_timestamp(),
        epochs = append_1.epochs, codes = append_1.codes, found = append_1.seen,
        skipped = append_1.skipped
    WHERE w.writer = p_writer;
END $$;

-- Values belong to their tasks from now on. `snapshot:` values are bodies of the last snapshot of
-- their task: those of the one before are loose, and readers of it have some minutes to end.
CREATE FUNCTION add_large_values_1(p_value int8[], p_id text[], p_task int8[], p_size int8[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    n int8;
BEGIN
    DELETE FROM loose_values WHERE value = ANY (p_value) AND until > clock_timestamp();
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < cardinality(p_value) THEN
        RAISE SQLSTATE 'TL001' USING MESSAGE = 'a large value was deleted before its task had it';
    END IF;
    WITH replaced AS (
        DELETE FROM large_values AS v
        USING unnest(p_task, p_id) AS t (task, id)
        WHERE v.task = t.task AND t.id LIKE 'snapshot:%' AND v.id LIKE 'snapshot:%'
        RETURNING v.value
    )
    INSERT INTO loose_values (value, until)
    SELECT value, clock_timestamp() + interval '10 min' FROM replaced;
    INSERT INTO large_values (value, id, task, size)
    SELECT * FROM unnest(p_value, p_id, p_task, p_size);
END $$;
