-- A database of schema 5 as pg_dump writes it. One node left, and another one died: with a task that is
-- finished, one that waits for its caller, one that is running, one that is queued, one that failed,
-- and timers that are due, claimed (until 2140) and put off (until 2140).
SET check_function_bodies = false;

CREATE FUNCTION public.add_large_values_1(p_value bigint[], p_id text[], p_task bigint[], p_size bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.add_month(at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    name text := 'events_' || to_char(at AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    -- "TRNK" and a number, as in schema.py.
    PERFORM pg_advisory_xact_lock(x'54524E4B'::int4, 2);
    IF to_regclass(format('%I', name)) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING ALL)', name);
        EXECUTE format(
            'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            name, month_key(at),
            -- Months are counted without gaps.
            month_key(at) + (1::int8 << 40)
        );
    END IF;
END $$;

CREATE FUNCTION public.append_1(p_writer bigint, p_batch bigint, p_node bigint, p_new integer, a_lane text[], a_epoch bigint[], a_task text[], a_was integer[], a_seq integer[], a_state smallint[], a_status_ms bigint[], a_scope integer[], a_context text[], a_created_ms bigint[], e_slot integer[], e_seq integer[], e_kind text[], e_body bytea[], s_slot integer[], s_seq integer[], s_body bytea[], s_artifacts bytea[], l_slot integer[], l_value bigint[], l_id text[], l_size bigint[], p_groups integer, c_slot integer[], c_group integer[], c_op smallint[], c_kind text[], c_scope text[], c_id text[], c_expected bigint[], c_number bigint[], c_body bytea[], c_tags text[], OUT epochs bigint[], OUT codes integer[], OUT seen bigint[], OUT skipped integer[]) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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

CREATE FUNCTION public.change_records_1(tasks bigint[], c_item integer[], c_group integer[], c_op smallint[], c_kind text[], c_scope text[], c_id text[], c_expected bigint[], c_number bigint[], c_body bytea[], c_tags text[], INOUT codes integer[], INOUT stored bigint[], OUT skipped integer[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_ms int8 := now_ms();
    size int4 := cardinality(c_op);
    has_tags bool := cardinality(array_remove(c_tags, NULL)) > 0;
    -- For each change: the due time that it sets, and the record that it finds.
    new_due int8[] := array_fill(NULL::int8, ARRAY[size]);
    versions int8[];
    counts int8[];
    dues int8[];
    tags text[];
    -- Whether it found nothing, so that the lock is a new row, which has all that a put or an add
    -- leads to. And whether it is the first one of its key in the batch.
    is_new bool[];
    is_first bool[];
    old record;
    is_timed bool := false;
    -- The scopes that were released, each as one text.
    released text[] := '{}';
    -- The unit at work: changes that are made together.
    first int4;
    last int4;
    item int4;
    refused int4;
    j int4;
BEGIN
    FOR j IN 1..size LOOP
        IF c_op[j] <= 2 AND c_number[j] IS NOT NULL AND codes[c_item[j]] = 0 THEN
            new_due[j] := now_ms + c_number[j];
            is_timed := true;
        END IF;
    END LOOP;

    -- Most batches have puts of new records only.
    IF 2 >= ALL (c_op) AND 0 = ALL (c_expected) AND 0 = ALL (codes) THEN
        BEGIN
            INSERT INTO records (kind, scope, id, version, due_ms, task, tags, body)
            SELECT c.kind, c.scope, c.id, 1, c.due_ms,
                CASE c.op WHEN 2 THEN nullif(tasks[c.item], 0) END, c.tags, c.body
            FROM unnest(c_item, c_op, c_kind, c_scope, c_id, new_due, c_tags, c_body)
                AS c (item, op, kind, scope, id, due_ms, tags, body)
            ORDER BY c.kind COLLATE "C", c.scope COLLATE "C", c.id COLLATE "C";
            IF has_tags THEN
                INSERT INTO record_tags (kind, tag, scope, id)
                SELECT c.kind, t.tag, c.scope, c.id
                FROM unnest(c_kind, c_scope, c_id, c_tags) AS c (kind, scope, id, tags),
                    json_array_elements_text(c.tags::json) AS t (tag)
                ON CONFLICT DO NOTHING;
            END IF;
            IF is_timed THEN
                PERFORM lock_due_scopes_1(c_kind, c_scope, c_id, c_op, '{}', new_due);
            END IF;
            RETURN;
        EXCEPTION WHEN unique_violation THEN
            -- One is not new. The steps below find out which.
        END;
    END IF;

    versions := array_fill(0::int8, ARRAY[size]);
    counts := versions;
    dues := array_fill(NULL::int8, ARRAY[size]);
    tags := array_fill(NULL::text, ARRAY[size]);
    is_new := array_fill(false, ARRAY[size]);
    is_first := is_new;

    -- Lock all keys. A key without a record has nothing to lock, so the record is made at once.
    FOR j IN
        SELECT min(c.j) FROM unnest(c_kind, c_scope, c_id, c_item) WITH ORDINALITY
            AS c (kind, scope, id, item, j)
        WHERE codes[c.item] = 0
        GROUP BY c.kind COLLATE "C", c.scope COLLATE "C", c.id COLLATE "C"
        ORDER BY c.kind COLLATE "C", c.scope COLLATE "C", c.id COLLATE "C"
    LOOP
        INSERT INTO records AS r (kind, scope, id, version, count, due_ms, task, tags, body)
        VALUES (
            c_kind[j], c_scope[j], c_id[j], 1, CASE c_op[j] WHEN 4 THEN c_number[j] ELSE 0 END,
            new_due[j], CASE c_op[j] WHEN 2 THEN nullif(tasks[c_item[j]], 0) END, c_tags[j],
            c_body[j]
        )
        -- Locks the record, and changes nothing.
        ON CONFLICT (kind, scope, id) DO UPDATE SET version = r.version WHERE false;
        is_first[j] := true;
        is_new[j] := FOUND;
        IF NOT FOUND THEN
            SELECT r.version, r.count, r.due_ms, r.tags INTO old FROM records AS r
            WHERE r.kind = c_kind[j] AND r.scope = c_scope[j] AND r.id = c_id[j];
            versions[j] := old.version;
            counts[j] := old.count;
            dues[j] := old.due_ms;
            tags[j] := old.tags;
            is_timed := is_timed OR old.due_ms IS NOT NULL;
        END IF;
    END LOOP;
    IF is_timed THEN
        PERFORM lock_due_scopes_1(c_kind, c_scope, c_id, c_op, dues, new_due);
    END IF;

    first := 1;
    WHILE first <= size LOOP
        item := c_item[first];
        last := first;
        WHILE last < size AND c_item[last + 1] = item AND c_group[last + 1] = c_group[first] LOOP
            last := last + 1;
        END LOOP;

        refused := CASE codes[item] WHEN 0 THEN 0 ELSE first END;
        IF refused = 0 THEN
            FOR j IN first..last LOOP
                IF NOT is_first[j] THEN
                    SELECT r.version, r.count INTO old FROM records AS r
                    WHERE r.kind = c_kind[j] AND r.scope = c_scope[j] AND r.id = c_id[j];
                    versions[j] := coalesce(old.version, 0);
                    counts[j] := coalesce(old.count, 0);
                END IF;
                IF c_op[j] = 4 AND counts[j] > c_expected[j] - c_number[j]
                    OR c_op[j] <> 4 AND c_expected[j] <> versions[j]
                THEN
                    refused := j;
                    EXIT;
                END IF;
            END LOOP;
            IF refused > 0 AND c_group[first] > 0 THEN
                skipped := skipped || c_group[first];
            ELSIF refused > 0 THEN
                codes[item] := refused;
                stored[item] := CASE c_op[refused]
                    WHEN 4 THEN counts[refused] ELSE versions[refused] END;
            END IF;
        END IF;

        FOR j IN first..last LOOP
            IF is_new[j] AND (refused > 0 OR c_op[j] IN (3, 5)) THEN
                DELETE FROM records AS r
                WHERE r.kind = c_kind[j] AND r.scope = c_scope[j] AND r.id = c_id[j];
            END IF;
            CONTINUE WHEN refused > 0;

            IF NOT is_first[j] THEN
                SELECT r.due_ms, r.tags INTO old FROM records AS r
                WHERE r.kind = c_kind[j] AND r.scope = c_scope[j] AND r.id = c_id[j];
                dues[j] := old.due_ms;
                tags[j] := old.tags;
            END IF;
            IF c_op[j] <= 3 AND tags[j] IS NOT NULL THEN
                DELETE FROM record_tags AS t
                USING json_array_elements_text(tags[j]::json) AS gone (tag)
                WHERE t.kind = c_kind[j] AND t.tag = gone.tag AND t.scope = c_scope[j]
                    AND t.id = c_id[j];
            END IF;
            IF c_op[j] <= 2 AND NOT is_new[j] THEN
                INSERT INTO records AS r (kind, scope, id, version, due_ms, task, tags, body)
                VALUES (
                    c_kind[j], c_scope[j], c_id[j], 1, new_due[j],
                    CASE c_op[j] WHEN 2 THEN nullif(tasks[item], 0) END, c_tags[j], c_body[j]
                )
                ON CONFLICT (kind, scope, id) DO UPDATE
                SET version = r.version + 1, attempts = 0, due_ms = excluded.due_ms,
                    task = excluded.task, tags = excluded.tags, body = excluded.body;
            ELSIF c_op[j] = 3 AND NOT is_new[j] THEN
                DELETE FROM records AS r
                WHERE r.kind = c_kind[j] AND r.scope = c_scope[j] AND r.id = c_id[j];
            ELSIF c_op[j] = 4 AND NOT is_new[j] THEN
                INSERT INTO records AS r (kind, scope, id, version, count)
                VALUES (c_kind[j], c_scope[j], c_id[j], 1, c_number[j])
                ON CONFLICT (kind, scope, id) DO UPDATE
                SET version = r.version + 1, count = r.count + excluded.count;
            ELSIF c_op[j] = 5 AND dues[j] IS NOT NULL THEN
                UPDATE due_scopes AS d
                SET held_id = c_id[j], held_until_ms = now_ms + c_number[j]
                WHERE d.kind = c_kind[j] AND d.scope = c_scope[j]
                    -- Unless another record of the scope is claimed.
                    AND (d.held_id IS NULL OR d.held_id = c_id[j] OR d.held_until_ms < now_ms);
            END IF;
            IF c_op[j] <= 2 AND c_tags[j] IS NOT NULL THEN
                INSERT INTO record_tags (kind, tag, scope, id)
                SELECT c_kind[j], t.tag, c_scope[j], c_id[j]
                FROM json_array_elements_text(c_tags[j]::json) AS t (tag)
                ON CONFLICT DO NOTHING;
            END IF;

            CONTINUE WHEN NOT is_timed OR c_op[j] > 3;
            IF dues[j] IS NOT NULL THEN
                PERFORM FROM due_scopes AS d
                WHERE d.kind = c_kind[j] AND d.scope = c_scope[j] AND d.held_id = c_id[j];
                IF FOUND THEN
                    PERFORM release_scope_1(c_kind[j], c_scope[j], now_ms);
                    released := released || concat_ws(chr(31), c_kind[j], c_scope[j]);
                    CONTINUE;
                END IF;
            END IF;
            -- The scope was locked for this due time, but may have lost it since. One that was not
            -- released still has it, and a further lock of it would be out of order.
            IF new_due[j] IS NOT NULL
                AND concat_ws(chr(31), c_kind[j], c_scope[j]) = ANY (released)
            THEN
                INSERT INTO due_scopes AS d (kind, scope, due_ms)
                VALUES (c_kind[j], c_scope[j], new_due[j])
                ON CONFLICT (kind, scope) DO UPDATE SET due_ms = excluded.due_ms
                WHERE excluded.due_ms < d.due_ms;
            END IF;
        END LOOP;
        first := last + 1;
    END LOOP;
END $$;

CREATE TABLE public.records (
    kind text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    count bigint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_ms bigint,
    task bigint,
    tags text COLLATE pg_catalog."C",
    body bytea DEFAULT '\x'::bytea NOT NULL
)
WITH (fillfactor='80');

CREATE FUNCTION public.claim_due_1(kinds text[], shares integer[], lease_ms bigint) RETURNS SETOF public.records
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
DECLARE
    now_ms int8 := now_ms();
    n int4;
    share int4;
    free text[];
    -- Scopes whose first record is being changed. They are left to the next claim.
    busy text[];
    place text;
    first_id text;
    claimed records%ROWTYPE;
BEGIN
    FOR n IN 1..cardinality(kinds) LOOP
        share := shares[n];
        busy := '{}';
        WHILE share > 0 LOOP
            SELECT array_agg(s.scope) INTO free FROM (
                SELECT d.scope FROM due_scopes AS d
                WHERE d.kind = kinds[n] AND greatest(d.due_ms, d.held_until_ms + 1) <= now_ms
                    AND d.scope <> ALL (busy)
                ORDER BY greatest(d.due_ms, d.held_until_ms + 1) LIMIT share
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS s;
            EXIT WHEN free IS NULL;
            FOREACH place IN ARRAY free LOOP
                SELECT r.id INTO first_id FROM records AS r
                WHERE r.kind = kinds[n] AND r.scope = place AND r.due_ms <= now_ms
                ORDER BY r.due_ms, r.id LIMIT 1;
                IF FOUND THEN
                    PERFORM FROM records AS r
                    WHERE r.kind = kinds[n] AND r.scope = place AND r.id = first_id
                        AND r.due_ms <= now_ms
                    FOR NO KEY UPDATE SKIP LOCKED;
                    IF FOUND THEN
                        UPDATE records AS r
                        SET version = r.version + 1, attempts = r.attempts + 1
                        WHERE r.kind = kinds[n] AND r.scope = place AND r.id = first_id
                        RETURNING r.* INTO claimed;
                        UPDATE due_scopes AS d
                        SET held_id = first_id, held_until_ms = now_ms + lease_ms
                        WHERE d.kind = kinds[n] AND d.scope = place;
                        RETURN NEXT claimed;
                        share := share - 1;
                    ELSE
                        busy := busy || place;
                    END IF;
                ELSE
                    -- Its records have gone or wait longer now.
                    PERFORM FROM due_scopes AS d
                    WHERE d.kind = kinds[n] AND d.scope = place FOR UPDATE SKIP LOCKED;
                    IF FOUND THEN
                        PERFORM release_scope_1(kinds[n], place, now_ms);
                    ELSE
                        busy := busy || place;
                    END IF;
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;

CREATE FUNCTION public.delete_due_1(p_kind text, p_scope text, before_ms bigint, max_deleted bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
DECLARE
    gone text[];
BEGIN
    SELECT array_agg(old.id) INTO gone FROM (
        SELECT r.id FROM records AS r
        WHERE r.kind = p_kind AND r.scope = p_scope AND r.due_ms < before_ms
        ORDER BY r.due_ms, r.id LIMIT max_deleted FOR UPDATE SKIP LOCKED
    ) AS old;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    WITH deleted AS (
        DELETE FROM records AS r
        WHERE r.kind = p_kind AND r.scope = p_scope AND r.id = ANY (gone)
        RETURNING r.id, r.tags
    )
    DELETE FROM record_tags AS t
    USING deleted AS r, json_array_elements_text(r.tags::json) AS gone_tag (tag)
    WHERE t.kind = p_kind AND t.tag = gone_tag.tag AND t.scope = p_scope AND t.id = r.id;
    PERFORM FROM due_scopes AS d
    WHERE d.kind = p_kind AND d.scope = p_scope AND d.held_id = ANY (gone) FOR UPDATE;
    IF FOUND THEN
        PERFORM release_scope_1(p_kind, p_scope, now_ms());
    END IF;
    RETURN cardinality(gone);
END $$;

CREATE FUNCTION public.drop_months_1() RETURNS integer
    LANGUAGE plpgsql
    SET lock_timeout TO '100ms'
    AS $$
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

CREATE FUNCTION public.forget_nodes_1() RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_gone int8[];
BEGIN
    DELETE FROM nodes n WHERE n.dead_at < clock_timestamp() - interval '1 hour'
        AND NOT EXISTS (SELECT FROM lanes l WHERE l.owner = n.node);
    -- Looked for in one statement and changed in the next, which compares nothing but the numbers:
    -- no node ever gets the number of another.
    SELECT array_agg(DISTINCT l.owner) INTO v_gone FROM lanes l
    WHERE l.owner IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.node = l.owner);
    UPDATE lanes l SET owner = NULL WHERE l.owner = ANY (v_gone);
END $$;

CREATE FUNCTION public.forget_task_records_1(p_tasks bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    kinds text[];
    scopes text[];
    ids text[];
    now_ms int8 := now_ms();
    place record;
BEGIN
    SELECT array_agg(r.kind), array_agg(r.scope), array_agg(r.id) INTO kinds, scopes, ids
    FROM (
        SELECT r.kind, r.scope, r.id FROM records AS r WHERE r.task = ANY (p_tasks)
        ORDER BY r.kind, r.scope, r.id FOR UPDATE
    ) AS r;
    IF kinds IS NULL THEN
        RETURN;
    END IF;
    WITH deleted AS (
        DELETE FROM records AS r
        USING unnest(kinds, scopes, ids) AS gone (kind, scope, id)
        WHERE r.kind = gone.kind AND r.scope = gone.scope AND r.id = gone.id
        RETURNING r.kind, r.scope, r.id, r.tags
    )
    DELETE FROM record_tags AS t
    USING deleted AS r, json_array_elements_text(r.tags::json) AS gone_tag (tag)
    WHERE t.kind = r.kind AND t.tag = gone_tag.tag AND t.scope = r.scope AND t.id = r.id;
    -- End the claims on them.
    FOR place IN
        SELECT d.kind, d.scope, d.held_id
        FROM unnest(kinds, scopes, ids) AS gone (kind, scope, id)
        CROSS JOIN LATERAL (
            SELECT d.* FROM due_scopes AS d
            WHERE d.kind = gone.kind AND d.scope = gone.scope AND d.held_id = gone.id LIMIT 1
        ) AS d
        ORDER BY d.kind, d.scope
    LOOP
        PERFORM FROM due_scopes AS d
        WHERE d.kind = place.kind AND d.scope = place.scope AND d.held_id = place.held_id
        FOR UPDATE;
        IF FOUND THEN
            PERFORM release_scope_1(place.kind, place.scope, now_ms);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION public.is_alive_1(p_node bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT FROM nodes WHERE node = p_node AND dead_at IS NULL)
$$;

CREATE FUNCTION public.judge_1() RETURNS void
    LANGUAGE sql
    AS $$
    UPDATE nodes SET dead_at = clock_timestamp()
    WHERE dead_at IS NULL AND lease_until <= clock_timestamp()
$$;

CREATE FUNCTION public.leave_1(p_node bigint, p_lanes text[], p_epochs bigint[]) RETURNS SETOF text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_own text[];
    v_stay text[];
BEGIN
    -- IS NOT DISTINCT FROM uses no index, as in append_1: lanes are found by their names.
    -- A node that posts a request tries to take the lane afterwards. Either it waits for this lock
    -- and then gets the lane, or its request is committed and is seen below.
    SELECT array_agg(l.lane) INTO v_own
    FROM unnest(p_lanes, p_epochs) AS t (lane, epoch) CROSS JOIN LATERAL (
        SELECT l.lane FROM lanes l
        WHERE l.lane = t.lane AND l.owner IS NOT DISTINCT FROM p_node AND t.epoch IN (0, l.epoch)
        LIMIT 1 FOR UPDATE
    ) AS l;
    SELECT coalesce(array_agg(o.lane), '{}') INTO v_stay FROM unnest(v_own) AS o (lane)
    CROSS JOIN LATERAL (
        SELECT FROM records r WHERE r.kind = 'inbox.1' AND r.scope = o.lane LIMIT 1
    ) AS r;
    UPDATE lanes l SET owner = NULL
    FROM unnest(v_own) AS o (lane) CROSS JOIN LATERAL (
        SELECT FROM tasks t WHERE t.lane = o.lane LIMIT 1
    ) AS t
    WHERE l.lane = o.lane AND l.lane <> ALL (v_stay);
    DELETE FROM lanes l
    WHERE l.lane = ANY (v_own) AND l.lane <> ALL (v_stay)
        AND l.owner IS NOT DISTINCT FROM p_node;
    RETURN QUERY SELECT unnest(v_stay);
END $$;

CREATE FUNCTION public.lock_due_scopes_1(p_kinds text[], p_scopes text[], p_ids text[], p_ops smallint[], p_due_before bigint[], p_due_after bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    place record;
BEGIN
    FOR place IN
        SELECT c.kind COLLATE "C" AS kind, c.scope COLLATE "C" AS scope,
            min(c.due_after) AS due_ms, bool_or(c.op = 5 OR d.held_id = c.id) AS may_release
        FROM unnest(p_kinds, p_scopes, p_ids, p_ops, p_due_before, p_due_after)
            AS c (kind, scope, id, op, due_before, due_after)
        -- A claim locks its record. So one that was not the holder does not become it meanwhile.
        LEFT JOIN LATERAL (
            SELECT d.held_id FROM due_scopes AS d
            WHERE c.due_before IS NOT NULL AND d.kind = c.kind AND d.scope = c.scope LIMIT 1
        ) AS d ON true
        WHERE c.due_before IS NOT NULL OR c.due_after IS NOT NULL
        GROUP BY 1, 2 ORDER BY 1, 2
    LOOP
        IF place.may_release THEN
            PERFORM FROM due_scopes AS d
            WHERE d.kind = place.kind AND d.scope = place.scope FOR UPDATE;
        END IF;
        IF place.due_ms IS NOT NULL THEN
            PERFORM FROM due_scopes AS d
            WHERE d.kind = place.kind AND d.scope = place.scope AND d.due_ms <= place.due_ms
            FOR KEY SHARE;
            IF NOT FOUND THEN
                INSERT INTO due_scopes AS d (kind, scope, due_ms)
                VALUES (place.kind, place.scope, place.due_ms)
                ON CONFLICT (kind, scope) DO UPDATE SET due_ms = excluded.due_ms
                WHERE excluded.due_ms < d.due_ms;
            END IF;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION public.month_key(at timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT ((extract(year FROM at AT TIME ZONE 'UTC')::int8 - 2000) * 12
        + extract(month FROM at AT TIME ZONE 'UTC')::int8) << 40
$$;

CREATE FUNCTION public.now_ms() RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8
$$;

CREATE FUNCTION public.prune_1(p_agent text, p_before_ms bigint, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.read_slots_1(p_agents text[]) RETURNS TABLE(version bigint, shares bytea, living bigint[], at_ms bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM judge_1();
    RETURN QUERY SELECT coalesce(s.version, 0), coalesce(s.shares, '{}'),
        (SELECT array_agg(n.node) FROM nodes n WHERE n.dead_at IS NULL), now_ms()
    FROM unnest(p_agents) WITH ORDINALITY AS a (agent, i)
    LEFT JOIN slots s ON s.agent = a.agent ORDER BY a.i;
END $$;

CREATE FUNCTION public.release_scope_1(p_kind text, p_scope text, p_now_ms bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
DECLARE
    next_ms int8;
BEGIN
    SELECT r.due_ms INTO next_ms FROM records AS r
    WHERE r.kind = p_kind AND r.scope = p_scope AND r.due_ms IS NOT NULL
    ORDER BY r.due_ms LIMIT 1;
    IF NOT FOUND THEN
        DELETE FROM due_scopes AS d WHERE d.kind = p_kind AND d.scope = p_scope;
    ELSE
        UPDATE due_scopes AS d
        SET due_ms = greatest(next_ms, p_now_ms), held_id = NULL, held_until_ms = 0
        WHERE d.kind = p_kind AND d.scope = p_scope;
    END IF;
END $$;

CREATE FUNCTION public.sweep_values_1(p_slices integer) RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.tail_1(p_task bigint, p_after integer, OUT seqs integer[], OUT kinds text[], OUT bodies bytea[]) RETURNS record
    LANGUAGE plpgsql STABLE STRICT
    AS $$
BEGIN
    SELECT array_agg(e.seq), array_agg(e.kind), array_agg(e.body) INTO seqs, kinds, bodies
    FROM (
        SELECT e.seq, e.kind, e.body FROM events AS e
        WHERE e.task = p_task AND e.seq > p_after ORDER BY e.seq
    ) AS e;
END $$;

CREATE FUNCTION public.take_1(p_node bigint, p_lane text, p_timeline text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_owner int8;
    v_epoch int8;
BEGIN
    PERFORM judge_1();
    IF NOT is_alive_1(p_node) THEN
        RETURN NULL;
    END IF;
    LOOP
        INSERT INTO lanes (lane, owner, epoch) VALUES (p_lane, p_node, nextval('epochs'))
        ON CONFLICT (lane) DO NOTHING RETURNING epoch INTO v_epoch;
        IF FOUND THEN
            RETURN v_epoch;
        END IF;
        SELECT owner, epoch INTO v_owner, v_epoch FROM lanes
        WHERE lane = p_lane FOR NO KEY UPDATE;
        -- Not found: its owner left it between these two statements.
        EXIT WHEN FOUND;
    END LOOP;
    IF v_owner = p_node THEN
        RETURN v_epoch;
    END IF;
    IF v_owner IS NOT NULL AND (p_timeline <> timeline_1() OR is_alive_1(v_owner)) THEN
        RETURN NULL;
    END IF;
    UPDATE lanes SET owner = p_node, epoch = nextval('epochs')
    WHERE lane = p_lane RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
END $$;

CREATE FUNCTION public.take_over_1(p_node bigint, p_timeline text, p_call bigint, p_is_repeated boolean, p_agents text[], p_limit integer) RETURNS TABLE(lane text, epoch bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_dead int8[];
BEGIN
    PERFORM judge_1();
    IF p_timeline <> timeline_1() OR NOT is_alive_1(p_node) THEN
        RETURN;
    END IF;
    IF p_is_repeated THEN
        RETURN QUERY SELECT l.lane, l.epoch FROM lanes l
        WHERE l.owner = p_node AND l.taken_by = p_call;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT array_agg(n.node) INTO v_dead FROM nodes n
    CROSS JOIN LATERAL (SELECT FROM lanes l WHERE l.owner = n.node LIMIT 1) AS l
    WHERE n.dead_at IS NOT NULL;
    IF v_dead IS NULL AND NOT EXISTS (SELECT FROM lanes l WHERE l.owner IS NULL) THEN
        RETURN;
    END IF;
    -- Rows are found again by their place: one that was changed since is left alone. A condition
    -- would be checked anew with the old rows of other tables, and take lanes of living nodes.
    RETURN QUERY
    WITH freed AS MATERIALIZED (
        SELECT x.at, x.waiting_since
        FROM unnest(p_agents) AS a (agent) CROSS JOIN LATERAL (
            SELECT l.ctid AS at, l.waiting_since FROM lanes l
            WHERE l.owner IS NULL AND l.agent = a.agent
            -- By all columns of the index: without the first one, PostgreSQL would sort.
            ORDER BY l.owner, l.agent, l.waiting_since LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED
        ) AS x
    ), dead AS MATERIALIZED (
        SELECT x.at, x.waiting_since
        FROM unnest(v_dead) AS n (node) CROSS JOIN unnest(p_agents) AS a (agent)
        CROSS JOIN LATERAL (
            SELECT l.ctid AS at, l.waiting_since FROM lanes l
            WHERE l.owner = n.node AND l.agent = a.agent
            ORDER BY l.waiting_since LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED
        ) AS x
    ), taken AS MATERIALIZED (
        SELECT f.at FROM (SELECT * FROM freed UNION ALL SELECT * FROM dead) AS f
        ORDER BY f.waiting_since LIMIT least(p_limit, 64)
    )
    UPDATE lanes l SET owner = p_node, epoch = nextval('epochs'), taken_by = p_call
    FROM taken t WHERE l.ctid = t.at RETURNING l.lane, l.epoch;
END $$;

CREATE FUNCTION public.task_key() RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT month_key(statement_timestamp()) | nextval('task_numbers')
$$;

CREATE FUNCTION public.timeline_1() RETURNS text
    LANGUAGE sql
    AS $$
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)
$$;

CREATE TABLE public.counts (
    state smallint NOT NULL,
    scope integer NOT NULL,
    writer bigint NOT NULL,
    n bigint NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.due_scopes (
    kind text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    due_ms bigint NOT NULL,
    held_id text COLLATE pg_catalog."C",
    held_until_ms bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80');

CREATE SEQUENCE public.epochs
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.events (
    task bigint NOT NULL,
    seq integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    body bytea NOT NULL
)
PARTITION BY RANGE (task);

CREATE TABLE public.events_2026_11 (
    task bigint CONSTRAINT events_task_not_null NOT NULL,
    seq integer CONSTRAINT events_seq_not_null NOT NULL,
    kind text CONSTRAINT events_kind_not_null NOT NULL COLLATE pg_catalog."C",
    body bytea CONSTRAINT events_body_not_null NOT NULL
);

CREATE TABLE public.events_2026_12 (
    task bigint CONSTRAINT events_task_not_null NOT NULL,
    seq integer CONSTRAINT events_seq_not_null NOT NULL,
    kind text CONSTRAINT events_kind_not_null NOT NULL COLLATE pg_catalog."C",
    body bytea CONSTRAINT events_body_not_null NOT NULL
);

CREATE TABLE public.events_2027_01 (
    task bigint CONSTRAINT events_task_not_null NOT NULL,
    seq integer CONSTRAINT events_seq_not_null NOT NULL,
    kind text CONSTRAINT events_kind_not_null NOT NULL COLLATE pg_catalog."C",
    body bytea CONSTRAINT events_body_not_null NOT NULL
);

CREATE TABLE public.lanes (
    lane text NOT NULL COLLATE pg_catalog."C",
    agent text GENERATED ALWAYS AS (((lane)::jsonb ->> 0)) STORED NOT NULL COLLATE pg_catalog."C",
    owner bigint,
    epoch bigint NOT NULL,
    taken_by bigint,
    waiting_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.large_values (
    value bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    task bigint NOT NULL,
    size bigint NOT NULL
);

CREATE TABLE public.loose_values (
    value bigint NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE TABLE public.nodes (
    node bigint NOT NULL,
    about text NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    dead_at timestamp with time zone
)
WITH (fillfactor='50');

CREATE TABLE public.record_tags (
    kind text NOT NULL COLLATE pg_catalog."C",
    tag text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE public.scopes (
    id integer NOT NULL,
    agent text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    principal text NOT NULL COLLATE pg_catalog."C"
);

ALTER TABLE public.scopes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.scopes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.slices (
    value bigint NOT NULL,
    number integer NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY public.slices ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE public.slots (
    agent text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    shares bytea NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.snapshots (
    task bigint NOT NULL,
    seq integer NOT NULL,
    body bytea NOT NULL,
    artifacts bytea NOT NULL
);

CREATE SEQUENCE public.task_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.tasks (
    key bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    scope integer NOT NULL,
    context text NOT NULL COLLATE pg_catalog."C",
    lane text COLLATE pg_catalog."C",
    created_ms bigint NOT NULL,
    status_ms bigint NOT NULL,
    last_seq integer NOT NULL,
    state smallint NOT NULL
)
WITH (fillfactor='80');

CREATE TABLE public.trunkline (
    version integer NOT NULL,
    min_code integer NOT NULL
);

CREATE SEQUENCE public.value_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.writers (
    writer bigint NOT NULL,
    batch bigint NOT NULL,
    used_at timestamp with time zone NOT NULL,
    epochs bigint[],
    codes integer[],
    found bigint[],
    skipped integer[]
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_2026_11 FOR VALUES FROM ('355142255771648') TO ('356241767399424');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_2026_12 FOR VALUES FROM ('356241767399424') TO ('357341279027200');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_2027_01 FOR VALUES FROM ('357341279027200') TO ('358440790654976');

INSERT INTO public.counts VALUES
	(5, 1, 716556410707066392, 1),
	(3, 1, 716556410707066392, 1),
	(1, 1, 716556410707066392, 1),
	(2, 1, 716556410707066392, 1),
	(6, 1, 716556410707066392, 1);

INSERT INTO public.due_scopes VALUES
	('retention.1', 'test/agent', 1795060483654, NULL, 0),
	('timer.1', 'due', 1795060423841, NULL, 0),
	('timer.1', 'claimed', 1795060423833, 't', 5395060423843),
	('timer.1', 'off', 1795060423837, 't', 5395060423844);

INSERT INTO public.events_2026_11 VALUES
	(355142255771649, 2, '', '\x9292a67461736b2e31c4ec7b226964223a2261302d303030303031222c22636f6e746578744964223a2264222c22737461747573223a7b227374617465223a225441534b5f53544154455f5355424d4954544544222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3737395a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d646f6e65222c22636f6e746578744964223a2264222c227461736b4964223a2261302d303030303031222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a2273617920646f6e65227d5d7d5d7d92a87374617475732e31c4757b227461736b4964223a2261302d303030303031222c22636f6e746578744964223a2264222c22737461747573223a7b227374617465223a225441534b5f53544154455f574f524b494e47222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3737395a227d7d'),
	(355142255771649, 4, '', '\x9292aa61727469666163742e31c4847b227461736b4964223a2261302d303030303031222c22636f6e746578744964223a2264222c226172746966616374223a7b2261727469666163744964223a22616e73776572222c226e616d65223a22616e73776572222c227061727473223a5b7b2274657874223a22646f6e65227d5d7d2c226c6173744368756e6b223a747275657d92a87374617475732e31c4f27b227461736b4964223a2261302d303030303031222c22636f6e746578744964223a2264222c22737461747573223a7b227374617465223a225441534b5f53544154455f434f4d504c45544544222c226d657373616765223a7b226d6573736167654964223a2261302d3030303030312e312e31222c22636f6e746578744964223a2264222c227461736b4964223a2261302d303030303031222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a22646f6e65227d5d7d2c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3739335a227d7d'),
	(355142255771650, 2, '', '\x9292a67461736b2e31c4f17b226964223a2261302d303030303032222c22636f6e746578744964223a2270222c22737461747573223a7b227374617465223a225441534b5f53544154455f5355424d4954544544222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3830365a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d706175736564222c22636f6e746578744964223a2270222c227461736b4964223a2261302d303030303032222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a2261736b20636f6c6f75723f227d5d7d5d7d92a87374617475732e31c4757b227461736b4964223a2261302d303030303032222c22636f6e746578744964223a2270222c22737461747573223a7b227374617465223a225441534b5f53544154455f574f524b494e47222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3830365a227d7d'),
	(355142255771650, 3, 'status.1', '\x7b227461736b4964223a2261302d303030303032222c22636f6e746578744964223a2270222c22737461747573223a7b227374617465223a225441534b5f53544154455f494e5055545f5245515549524544222c226d657373616765223a7b226d6573736167654964223a2261302d3030303030322e312e31222c22636f6e746578744964223a2270222c227461736b4964223a2261302d303030303032222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a22636f6c6f75723f227d5d7d2c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3831345a227d7d'),
	(355142255771651, 2, '', '\x9292a67461736b2e31c4fb7b226964223a2261302d303030303033222c22636f6e746578744964223a2271222c22737461747573223a7b227374617465223a225441534b5f53544154455f5355424d4954544544222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3831385a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d72756e6e696e67222c22636f6e746578744964223a2271222c227461736b4964223a2261302d303030303033222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a2273617920736f6d653b2077616974206e65766572227d5d7d5d7d92a87374617475732e31c4757b227461736b4964223a2261302d303030303033222c22636f6e746578744964223a2271222c22737461747573223a7b227374617465223a225441534b5f53544154455f574f524b494e47222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3831385a227d7d'),
	(355142255771651, 3, 'artifact.1', '\x7b227461736b4964223a2261302d303030303033222c22636f6e746578744964223a2271222c226172746966616374223a7b2261727469666163744964223a22616e73776572222c226e616d65223a22616e73776572222c227061727473223a5b7b2274657874223a22736f6d65227d5d7d7d'),
	(355142255771652, 1, 'task.1', '\x7b226964223a2261302d303030303034222c22636f6e746578744964223a2271222c22737461747573223a7b227374617465223a225441534b5f53544154455f5355424d4954544544222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3831395a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d717565756564222c22636f6e746578744964223a2271222c227461736b4964223a2261302d303030303034222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a2273617920717565756564227d5d7d5d7d'),
	(355142255771653, 2, '', '\x9292a67461736b2e31c4f07b226964223a2261302d303030303035222c22636f6e746578744964223a2266222c22737461747573223a7b227374617465223a225441534b5f53544154455f5355424d4954544544222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3833315a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d6661696c6564222c22636f6e746578744964223a2266222c227461736b4964223a2261302d303030303035222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a226661696c206261646c79227d5d7d5d7d92a87374617475732e31c4757b227461736b4964223a2261302d303030303035222c22636f6e746578744964223a2266222c22737461747573223a7b227374617465223a225441534b5f53544154455f574f524b494e47222c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3833315a227d7d'),
	(355142255771653, 3, 'status.1', '\x7b227461736b4964223a2261302d303030303035222c22636f6e746578744964223a2266222c22737461747573223a7b227374617465223a225441534b5f53544154455f4641494c4544222c226d657373616765223a7b226d6573736167654964223a2261302d3030303030352e312e31222c22636f6e746578744964223a2266222c227461736b4964223a2261302d303030303035222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a226261646c79227d5d7d2c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3833325a227d7d');

INSERT INTO public.lanes VALUES
	('["test/agent","","alice","p"]', DEFAULT, 3421846410118556000, 2, NULL, '2026-11-19 03:53:43.801883+00'),
	('["test/agent","","alice","q"]', DEFAULT, 3421846410118556000, 3, NULL, '2026-11-19 03:53:43.818342+00'),
	('["test/agent","","alice","f"]', DEFAULT, 3421846410118556000, 4, NULL, '2026-11-19 03:53:43.82125+00');

INSERT INTO public.nodes VALUES
	(1369711703931618231, '{"host":"one","pid":26315,"release":"0.1.0","started_ms":1795060423748}', '2026-11-19 03:54:43.757149+00', '2026-11-19 03:53:43.850742+00'),
	(3421846410118556000, '{"host":"one","pid":26315,"release":"0.1.0","started_ms":1795060423673}', '2026-11-19 03:53:43.85975+00', NULL);

INSERT INTO public.record_tags VALUES
	('timer.1', 'tag', 'claimed', 't'),
	('timer.1', 'tag', 'off', 't'),
	('timer.1', 'tag', 'due', 't');

INSERT INTO public.records VALUES
	('retention.1', 'test/agent', '', 1, 0, 0, 1795060483654, NULL, NULL, '\x'),
	('key.1', 'test/agent', '["","alice","key:once"]', 1, 0, 0, NULL, 355142255771649, NULL, '\x7b22646967657374223a2275634a796e5846623439516d3438384f7668307a2f316b6d4f324f2b6f70693330565359416d4f536e306b3d222c227461736b5f6964223a2261302d303030303031227d'),
	('timer.1', 'due', 't', 1, 0, 0, 1795060423841, NULL, '["tag"]', '\x647565'),
	('timer.1', 'claimed', 'next', 1, 0, 0, 1795060423842, NULL, NULL, '\x'),
	('timer.1', 'claimed', 't', 2, 0, 1, 1795060423833, NULL, '["tag"]', '\x636c61696d6564'),
	('timer.1', 'off', 't', 2, 0, 1, 1795060423837, NULL, '["tag"]', '\x6f6666');

INSERT INTO public.scopes OVERRIDING SYSTEM VALUE VALUES
	(1, 'test/agent', '', 'alice');

INSERT INTO public.snapshots VALUES
	(355142255771649, 4, '\x7b226964223a2261302d303030303031222c22636f6e746578744964223a2264222c22737461747573223a7b227374617465223a225441534b5f53544154455f434f4d504c45544544222c226d657373616765223a7b226d6573736167654964223a2261302d3030303030312e312e31222c22636f6e746578744964223a2264222c227461736b4964223a2261302d303030303031222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a22646f6e65227d5d7d2c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3739335a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d646f6e65222c22636f6e746578744964223a2264222c227461736b4964223a2261302d303030303031222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a2273617920646f6e65227d5d7d2c7b226d6573736167654964223a2261302d3030303030312e312e31222c22636f6e746578744964223a2264222c227461736b4964223a2261302d303030303031222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a22646f6e65227d5d7d5d7d', '\x5b7b2261727469666163744964223a22616e73776572222c226e616d65223a22616e73776572222c227061727473223a5b7b2274657874223a22646f6e65227d5d7d5d'),
	(355142255771650, 3, '\x7b226964223a2261302d303030303032222c22636f6e746578744964223a2270222c22737461747573223a7b227374617465223a225441534b5f53544154455f494e5055545f5245515549524544222c226d657373616765223a7b226d6573736167654964223a2261302d3030303030322e312e31222c22636f6e746578744964223a2270222c227461736b4964223a2261302d303030303032222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a22636f6c6f75723f227d5d7d2c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3831345a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d706175736564222c22636f6e746578744964223a2270222c227461736b4964223a2261302d303030303032222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a2261736b20636f6c6f75723f227d5d7d2c7b226d6573736167654964223a2261302d3030303030322e312e31222c22636f6e746578744964223a2270222c227461736b4964223a2261302d303030303032222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a22636f6c6f75723f227d5d7d5d7d', '\x'),
	(355142255771653, 3, '\x7b226964223a2261302d303030303035222c22636f6e746578744964223a2266222c22737461747573223a7b227374617465223a225441534b5f53544154455f4641494c4544222c226d657373616765223a7b226d6573736167654964223a2261302d3030303030352e312e31222c22636f6e746578744964223a2266222c227461736b4964223a2261302d303030303035222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a226261646c79227d5d7d2c2274696d657374616d70223a22323032362d31312d31395430333a35333a34332e3833325a227d2c22686973746f7279223a5b7b226d6573736167654964223a226d2d6661696c6564222c22636f6e746578744964223a2266222c227461736b4964223a2261302d303030303035222c22726f6c65223a22524f4c455f55534552222c227061727473223a5b7b2274657874223a226661696c206261646c79227d5d7d2c7b226d6573736167654964223a2261302d3030303030352e312e31222c22636f6e746578744964223a2266222c227461736b4964223a2261302d303030303035222c22726f6c65223a22524f4c455f4147454e54222c227061727473223a5b7b2274657874223a226261646c79227d5d7d5d7d', '\x');

INSERT INTO public.tasks VALUES
	(355142255771649, 'a0-000001', 1, 'd', NULL, 1795060423779, 1795060423793, 4, 5),
	(355142255771650, 'a0-000002', 1, 'p', NULL, 1795060423806, 1795060423814, 3, 3),
	(355142255771651, 'a0-000003', 1, 'q', '["test/agent","","alice","q"]', 1795060423818, 1795060423818, 3, 2),
	(355142255771652, 'a0-000004', 1, 'q', '["test/agent","","alice","q"]', 1795060423819, 1795060423819, 1, 1),
	(355142255771653, 'a0-000005', 1, 'f', NULL, 1795060423831, 1795060423832, 3, 6);

INSERT INTO public.trunkline VALUES
	(5, 1);

INSERT INTO public.writers VALUES
	(4048265634569461381, 0, '2026-11-19 03:53:43.731474+00', NULL, NULL, NULL, NULL),
	(716556410707066392, 15, '2026-11-19 03:53:43.8447+00', NULL, NULL, NULL, NULL);

SELECT pg_catalog.setval('public.epochs', 4, true);

SELECT pg_catalog.setval('public.scopes_id_seq', 1, true);

SELECT pg_catalog.setval('public.task_numbers', 5, true);

SELECT pg_catalog.setval('public.value_numbers', 1, false);

ALTER TABLE ONLY public.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (state, scope, writer);

ALTER TABLE ONLY public.due_scopes
    ADD CONSTRAINT due_scopes_pkey PRIMARY KEY (kind, scope);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (task, seq);

ALTER TABLE ONLY public.events_2026_11
    ADD CONSTRAINT events_2026_11_pkey PRIMARY KEY (task, seq);

ALTER TABLE ONLY public.events_2026_12
    ADD CONSTRAINT events_2026_12_pkey PRIMARY KEY (task, seq);

ALTER TABLE ONLY public.events_2027_01
    ADD CONSTRAINT events_2027_01_pkey PRIMARY KEY (task, seq);

ALTER TABLE ONLY public.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (lane);

ALTER TABLE ONLY public.large_values
    ADD CONSTRAINT large_values_id_key UNIQUE (id);

ALTER TABLE ONLY public.large_values
    ADD CONSTRAINT large_values_pkey PRIMARY KEY (value);

ALTER TABLE ONLY public.loose_values
    ADD CONSTRAINT loose_values_pkey PRIMARY KEY (value);

ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (node);

ALTER TABLE ONLY public.record_tags
    ADD CONSTRAINT record_tags_pkey PRIMARY KEY (kind, tag, scope, id);

ALTER TABLE ONLY public.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (kind, scope, id);

ALTER TABLE ONLY public.scopes
    ADD CONSTRAINT scopes_agent_tenant_principal_key UNIQUE (agent, tenant, principal);

ALTER TABLE ONLY public.scopes
    ADD CONSTRAINT scopes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.slices
    ADD CONSTRAINT slices_pkey PRIMARY KEY (value, number);

ALTER TABLE ONLY public.slots
    ADD CONSTRAINT slots_pkey PRIMARY KEY (agent);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (task);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_id_key UNIQUE (id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.writers
    ADD CONSTRAINT writers_pkey PRIMARY KEY (writer);

CREATE INDEX due_scopes_by_time ON public.due_scopes USING btree (kind, GREATEST(due_ms, (held_until_ms + 1)));

CREATE INDEX lanes_by_owner ON public.lanes USING btree (owner, agent, waiting_since);

CREATE INDEX large_values_by_task ON public.large_values USING btree (task);

CREATE INDEX loose_values_by_time ON public.loose_values USING btree (until);

CREATE INDEX records_by_due ON public.records USING btree (kind, scope, due_ms, id) WHERE (due_ms IS NOT NULL);

CREATE INDEX records_by_task ON public.records USING btree (task) WHERE (task IS NOT NULL);

CREATE INDEX tasks_by_context ON public.tasks USING btree (scope, context);

CREATE INDEX tasks_by_lane ON public.tasks USING btree (lane) WHERE (lane IS NOT NULL);

CREATE INDEX tasks_by_state ON public.tasks USING btree (scope, state, status_ms, key);

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_2026_11_pkey;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_2026_12_pkey;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_2027_01_pkey;
