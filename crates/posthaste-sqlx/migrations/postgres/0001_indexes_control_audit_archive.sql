-- The order in which a claim reads. Delayed and parked rows have a time after now; a claim steps over leased ones.
CREATE INDEX "{name}_due" ON "{table}" (available_at, seq) WHERE status IN (0, 2);
-- For claims of the strict mode, the lag, and lists of pending rows.
CREATE INDEX "{name}_pending" ON "{table}" (seq) WHERE status IN (0, 2);
CREATE INDEX "{name}_parked" ON "{table}" (parked, seq) WHERE parked IS NOT NULL;
-- The order of purges. Another program may leave done_at empty.
CREATE INDEX "{name}_done" ON "{table}" (coalesce(done_at, inserted_at)) WHERE status = 1;
CREATE INDEX "{name}_dead" ON "{table}" (seq) WHERE status = 3;

-- Routes that an operator has paused.
CREATE TABLE "{table}_control" (
  route     text        PRIMARY KEY,
  paused_at timestamptz NOT NULL,
  paused_by text        NOT NULL
);

-- Changes by operators.
CREATE TABLE "{table}_audit" (
  seq    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     timestamptz NOT NULL,
  actor  text        NOT NULL,
  action text        NOT NULL,
  target text        NOT NULL,
  rows   bigint      NOT NULL
);

-- Delivered or dead events that the configuration keeps after their rows left the outbox. There is one partition per
-- day of archiving, so that a whole day can be dropped in one statement. A row without a partition goes into the default one.
CREATE TABLE "{table}_archive" (
  seq            bigint       NOT NULL,
  event_id       varchar(36)  NOT NULL,
  event_type     varchar(128) NOT NULL,
  aggregate_type varchar(64),
  aggregate_id   varchar(128),
  tenant_id      varchar(64),
  topic          text,
  content_type   text,
  schema_version bigint,
  payload        text,
  payload_bytes  bytea,
  headers        text,
  status         smallint     NOT NULL,
  attempts       integer      NOT NULL,
  deferrals      integer      NOT NULL,
  lost_leases    integer      NOT NULL,
  replays        integer      NOT NULL,
  parked         text,
  progress       text[],
  available_at   timestamptz  NOT NULL,
  created_at     timestamptz  NOT NULL,
  inserted_at    timestamptz  NOT NULL,
  done_at        timestamptz,
  last_error     text,
  locked_by      varchar(128),
  locked_at      timestamptz,
  lease_until    timestamptz,
  lease_token    bigint       NOT NULL,
  archived_at    timestamptz  NOT NULL DEFAULT statement_timestamp()
) PARTITION BY RANGE (archived_at);
CREATE INDEX "{name}_archive_seq" ON "{table}_archive" (seq);
CREATE INDEX "{name}_archive_id" ON "{table}_archive" (event_id);
CREATE TABLE "{table}_archive_rest" PARTITION OF "{table}_archive" DEFAULT;

CREATE INDEX "{name}_archive_rest_at" ON "{table}_archive_rest" (archived_at);

-- Partitions belong to the user who created the outbox. These two functions let a relay create and drop partitions
-- without being the owner. Both wait only briefly for locks: a transaction that reads the archive for hours, such as a
-- dump, must not block later readers behind them. They are called again later.
--
-- A partition is created as a table and then attached, so that readers of the archive do not wait. Only the default
-- partition must be free of locks. A day with rows in the default partition stays there. While a partition is attached,
-- PostgreSQL reads all of the default one and nothing can be archived. If that would take long, no partition is
-- created.
CREATE FUNCTION "{table}_archive_day"(day date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
SET lock_timeout = '5s' AS $$
DECLARE
  partition text := '{name}_day_' || to_char(day, 'YYYYMMDD');
  first timestamptz := day::timestamp AT TIME ZONE 'UTC';
  next timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('posthaste {schema}.{name} archive', 0));
  IF to_regclass(format('%I.%I', '{schema}', partition)) IS NOT NULL
    OR EXISTS (SELECT FROM "{table}_archive_rest" WHERE archived_at >= first AND archived_at < next) THEN
    RETURN;
  END IF;
  IF pg_relation_size('"{table}_archive_rest"') > 64 * 1024 * 1024 THEN
    RAISE EXCEPTION 'nothing could be archived while PostgreSQL reads %, which is larger than 64 MB: '
      'detach it first, as docs/postgres.md describes', '{name}_archive_rest';
  END IF;
  PERFORM set_config('lock_timeout', '500ms', true);
  -- Otherwise a row that is being inserted into the default partition, while the partition of its day is attached,
  -- would be refused.
  LOCK TABLE ONLY "{table}_archive" IN SHARE ROW EXCLUSIVE MODE;
  EXECUTE format('CREATE TABLE %I.%I (LIKE "{table}_archive" INCLUDING DEFAULTS)', '{schema}', partition);
  EXECUTE format('ALTER TABLE "{table}_archive" ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%L)',
    '{schema}', partition, first, next);
END $$;

-- Drops the days that ended before this time, deletes up to "most" older events of the default partition, and returns
-- how many events are gone. The number is an estimate of the server for a day with more than a hundred thousand events,
-- because counting would read all of them. A day that another transaction reads is left for the next call.
CREATE FUNCTION "{table}_archive_drop"(before timestamptz, most bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
  day record;
  gone bigint := 0;
  rows bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('posthaste {schema}.{name} archive', 0));
  PERFORM set_config('lock_timeout', '500ms', true);
  FOR day IN
    SELECT c.oid::regclass AS partition, c.reltuples::bigint AS estimate
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '"{table}_archive"'::regclass AND c.relname ~ '_day_[0-9]{8}$'
      AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= before
  LOOP
    BEGIN
      EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT 100000) AS first', day.partition) INTO rows;
      IF rows = 100000 THEN
        rows := greatest(rows, day.estimate);
      END IF;
      EXECUTE format('DROP TABLE %s', day.partition);
      gone := gone + rows;
    EXCEPTION WHEN lock_not_available THEN
      EXIT;
    END;
  END LOOP;
  DELETE FROM "{table}_archive_rest" WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM "{table}_archive_rest" WHERE archived_at <= before ORDER BY archived_at LIMIT most));
  GET DIAGNOSTICS rows = ROW_COUNT;
  RETURN gone + rows;
END $$;
REVOKE ALL ON FUNCTION "{table}_archive_day"(date), "{table}_archive_drop"(timestamptz, bigint) FROM PUBLIC;
