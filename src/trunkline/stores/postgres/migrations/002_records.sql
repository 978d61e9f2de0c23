-- Records: changes of them, claims of due ones, and what goes with a task.
--
-- Locks come in one order, whoever takes them: lanes, tasks, records by their keys, due scopes by
-- theirs. A claim goes the other way, from the scope to the record, and therefore waits for nothing.
-- A scope is locked
--
-- - FOR KEY SHARE by a put that finds it due early enough: many nodes put into one scope at a time;
-- - FOR NO KEY UPDATE by a claim, and by a put that makes it due earlier;
-- - FOR UPDATE to find its next due time, which waits for the puts that are under way.
--
-- Each step below is a statement of its own, and sees what was committed before the locks of the
-- statements before it were granted.
--
-- Functions that look for the first of many rows forbid every plan but to read an index in its
-- order. Among kinds that PostgreSQL has no statistics of yet, it would read all rows and sort them.

-- End the claim on a scope, which takes its next turn behind all others due by now. The caller has
-- locked it FOR UPDATE.
CREATE FUNCTION release_scope_1(p_kind text, p_scope text, p_now_ms int8) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
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

-- Lock the scopes of due records that are about to change. With a new due time, the scope is due by
-- then at the latest.
CREATE FUNCTION lock_due_scopes_1(
    p_kinds text[], p_scopes text[], p_ids text[], p_ops int2[],
    -- The due time that each record had, and the one that it gets.
    p_due_before int8[], p_due_after int8[]
) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Make the changes of a batch.
--
-- Each item of the batch, an append or a group of changes alone, has an element in `tasks` (0 for
-- none), `codes` and `stored`. An item with a code is left out. One that is refused gets the number
-- of the change that refuses it as its code, and in `stored` the count or version that this change
-- found. `skipped` has the optional groups that were refused.
--
-- The changes of an item are in a row: those that are required, then each optional group.
CREATE FUNCTION change_records_1(
    tasks int8[],
    c_item int4[],
    -- 0 for a required change, else the number of its optional group.
    c_group int4[],
    -- 1 put, 2 put that goes with the task, 3 delete, 4 add, 5 defer.
    c_op int2[],
    c_kind text[],
    c_scope text[],
    c_id text[],
    -- Of an add: at_most.
    c_expected int8[],
    -- Of a put: due_in_ms; of an add: amount; of a defer: in_ms.
    c_number int8[],
    c_body bytea[],
    -- JSON arrays.
    c_tags text[],
    INOUT codes int4[],
    INOUT stored int8[],
    OUT skipped int4[]
)
LANGUAGE plpgsql AS $$
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

-- Claim the first due record of scopes: of each kind as many as its share.
CREATE FUNCTION claim_due_1(kinds text[], shares int4[], lease_ms int8) RETURNS SETOF records
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
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

-- Delete the records of a scope that have been due the longest, except those that are being
-- changed. Returns how many.
CREATE FUNCTION delete_due_1(p_kind text, p_scope text, before_ms int8, max_deleted int8)
RETURNS int8
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
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

-- Delete the records that go with tasks. The caller has locked the tasks.
CREATE FUNCTION forget_task_records_1(p_tasks int8[]) RETURNS void
LANGUAGE plpgsql AS $$
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
