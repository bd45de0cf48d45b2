-- An outbox: events wait here from the commit of their transaction until they are settled.
--
-- Times are microseconds since 1970, UTC. The SQLite library of each client evaluates defaults, checks and triggers, so
-- they use no function that is newer than SQLite 3.9.
CREATE TABLE "{table}" (
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id       TEXT NOT NULL UNIQUE
    CONSTRAINT "event_id is text of 1 to 36 characters"
    CHECK (typeof(event_id) = 'text' AND length(event_id) BETWEEN 1 AND 36),
  event_type     TEXT NOT NULL
    CONSTRAINT "event_type is text and not empty" CHECK (typeof(event_type) = 'text' AND event_type <> ''),
  aggregate_type TEXT DEFAULT '__GLOBAL__',
  aggregate_id   TEXT,
  tenant_id      TEXT,
  topic          TEXT,
  content_type   TEXT,
  schema_version INTEGER,
  -- BLOB has no affinity: text stays text, and a blob stays a blob.
  payload        BLOB NOT NULL
    CONSTRAINT "payload is text or a blob" CHECK (typeof(payload) IN ('text', 'blob')),
  headers        TEXT,
  status         INTEGER NOT NULL DEFAULT 0
    CONSTRAINT "status is 0 NEW, 1 DONE, 2 RETRY or 3 DEAD" CHECK (status IN (0, 1, 2, 3)),
  -- Failed attempts, requests of a handler for more time, leases that ended without an outcome, and replays by
  -- operators.
  attempts       INTEGER NOT NULL DEFAULT 0,
  deferrals      INTEGER NOT NULL DEFAULT 0,
  lost_leases    INTEGER NOT NULL DEFAULT 0,
  replays        INTEGER NOT NULL DEFAULT 0,
  -- The reason for which the row is parked, and a JSON list of the destinations that have received the event.
  parked         TEXT,
  progress       TEXT,
  -- Since when the row has been put off with a limit, and the longest limit since then, in microseconds.
  put_off_since  INTEGER,
  put_off_limit  INTEGER,
  -- When the row is due: immediately, after a delay, or at its next attempt.
  available_at   INTEGER NOT NULL DEFAULT (
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
  created_at     INTEGER NOT NULL DEFAULT (
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
  -- When the row was inserted. created_at is a time of the producer.
  inserted_at    INTEGER NOT NULL DEFAULT (
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
  done_at        INTEGER,
  last_error     TEXT,
  locked_by      TEXT,
  locked_at      INTEGER,
  -- When the lease ends. No index contains it or any other column that a claim changes, so a claim writes no index.
  lease_until    INTEGER,
  -- The token of the lease. A settlement with another token changes nothing, unless it reports a delivery.
  lease_token    INTEGER NOT NULL DEFAULT 0
);

-- The order in which a claim reads. Delayed and parked rows have a time after now; a claim steps over leased ones.
CREATE INDEX "{table}_due" ON "{table}" (available_at, seq) WHERE status IN (0, 2);
-- For claims of the strict mode, the lag, and lists of pending rows.
CREATE INDEX "{table}_pending" ON "{table}" (seq) WHERE status IN (0, 2);
CREATE INDEX "{table}_parked" ON "{table}" (parked, seq) WHERE parked IS NOT NULL;
-- The order of purges. Another program may leave done_at empty.
CREATE INDEX "{table}_done" ON "{table}" (coalesce(done_at, inserted_at)) WHERE status = 1;
CREATE INDEX "{table}_dead" ON "{table}" (seq) WHERE status = 3;

-- Text and blobs sort after every number, so a row with such a time would never be due. Text such as the result of
-- datetime('now') is converted to the time that it means.
CREATE TRIGGER "{table}_text_times" AFTER INSERT ON "{table}"
WHEN typeof(NEW.available_at) IN ('text', 'blob') OR typeof(NEW.created_at) IN ('text', 'blob')
BEGIN
  SELECT RAISE(ABORT, 'available_at and created_at take microseconds since 1970 or a UTC time such as 2026-01-31 12:00:00')
  WHERE typeof(NEW.available_at) = 'blob' OR typeof(NEW.created_at) = 'blob'
     OR (typeof(NEW.available_at) = 'text' AND strftime('%s', NEW.available_at) IS NULL)
     OR (typeof(NEW.created_at) = 'text' AND strftime('%s', NEW.created_at) IS NULL);
  UPDATE "{table}" SET
    available_at = CASE typeof(NEW.available_at) WHEN 'text'
      THEN CAST(strftime('%s', NEW.available_at) AS INTEGER) * 1000000
         + CAST(substr(strftime('%f', NEW.available_at), 4) AS INTEGER) * 1000
      ELSE NEW.available_at END,
    created_at = CASE typeof(NEW.created_at) WHEN 'text'
      THEN CAST(strftime('%s', NEW.created_at) AS INTEGER) * 1000000
         + CAST(substr(strftime('%f', NEW.created_at), 4) AS INTEGER) * 1000
      ELSE NEW.created_at END
  WHERE seq = NEW.seq;
END;

-- Delivered or dead events that the configuration keeps after their rows left the outbox.
CREATE TABLE "{table}_archive" (
  seq            INTEGER NOT NULL,
  event_id       TEXT NOT NULL,
  event_type     TEXT NOT NULL,
  aggregate_type TEXT,
  aggregate_id   TEXT,
  tenant_id      TEXT,
  topic          TEXT,
  content_type   TEXT,
  schema_version INTEGER,
  payload        BLOB NOT NULL,
  headers        TEXT,
  status         INTEGER NOT NULL,
  attempts       INTEGER NOT NULL,
  deferrals      INTEGER NOT NULL,
  lost_leases    INTEGER NOT NULL,
  replays        INTEGER NOT NULL,
  parked         TEXT,
  progress       TEXT,
  available_at   INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  inserted_at    INTEGER NOT NULL,
  done_at        INTEGER,
  last_error     TEXT,
  locked_by      TEXT,
  locked_at      INTEGER,
  lease_until    INTEGER,
  lease_token    INTEGER NOT NULL,
  -- The number alone can repeat, after a restore of the file.
  PRIMARY KEY (seq, event_id)
);
CREATE INDEX "{table}_archive_id" ON "{table}_archive" (event_id);

-- Routes that an operator has paused.
CREATE TABLE "{table}_control" (
  route     TEXT PRIMARY KEY,
  paused_at INTEGER NOT NULL,
  paused_by TEXT NOT NULL
);

-- Changes by operators.
CREATE TABLE "{table}_audit" (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,
  actor  TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  rows   INTEGER NOT NULL
);
