-- An outbox: events wait here from the commit of their transaction until they are settled.
--
-- All times are UTC, whatever the time zones of the server and of its clients are.
CREATE TABLE IF NOT EXISTS `{table}` (
  seq            BIGINT       NOT NULL AUTO_INCREMENT,
  event_id       VARCHAR(36)  NOT NULL,
  event_type     VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64)  DEFAULT '__GLOBAL__',
  aggregate_id   VARCHAR(128),
  tenant_id      VARCHAR(64),
  topic          TEXT,
  content_type   TEXT,
  schema_version BIGINT,
  -- LONGTEXT keeps the bytes that a client sends. A JSON column would not.
  payload        LONGTEXT,
  payload_bytes  LONGBLOB,
  headers        LONGTEXT,
  status         TINYINT      NOT NULL DEFAULT 0,
  -- Failed attempts, requests of a handler for more time, leases that ended without an outcome, and replays by
  -- operators.
  attempts       INT          NOT NULL DEFAULT 0,
  deferrals      INT          NOT NULL DEFAULT 0,
  lost_leases    INT          NOT NULL DEFAULT 0,
  replays        INT          NOT NULL DEFAULT 0,
  -- The reason for which the row is parked, and a JSON list of the destinations that have received the event.
  parked         VARCHAR(255),
  progress       LONGTEXT,
  -- Since when the row has been put off with a limit, and the longest limit since then, in microseconds.
  put_off_since  DATETIME(6),
  put_off_limit  BIGINT,
  -- When the row is due: immediately, after a delay, or at its next attempt.
  available_at   DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  created_at     DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  -- When the row was inserted. `created_at` is a time of the producer.
  inserted_at    DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  done_at        DATETIME(6),
  last_error     LONGTEXT,
  locked_by      VARCHAR(128),
  locked_at      DATETIME(6),
  -- When the lease ends. No index contains it or any other column that a claim changes, so a claim writes no index.
  lease_until    DATETIME(6),
  -- The token of the lease. A settlement with another token changes nothing, unless it reports a delivery.
  lease_token    BIGINT       NOT NULL DEFAULT 0,
  -- A mark of the call that settled the row last, so that a second statement can see which rows the first one settled.
  settlement     BIGINT       NOT NULL DEFAULT 0,
  -- The size of the payload and the headers, in bytes. Claims read it before they read the row, because reading a
  -- payload that is stored outside of its row costs a page read. It is not a generated column, because MariaDB reads
  -- the columns from which such a column was generated. -1 if not exactly one of payload and payload_bytes is set: a
  -- CHECK on the payload itself would read it for every UPDATE.
  size           BIGINT       NOT NULL DEFAULT
    (CASE WHEN (payload IS NULL) <> (payload_bytes IS NULL)
      THEN COALESCE(LENGTH(payload), LENGTH(payload_bytes)) + COALESCE(LENGTH(headers), 0) ELSE -1 END),
  -- MySQL has no partial indexes. With these two columns, one index serves claims and purges: pending (0), done (1) and
  -- dead (3) rows are apart, each ordered by the time that matters for them. A NULL, or a time before the first day of
  -- a DATETIME, counts as that day, because MySQL evaluates the expression before it fills in defaults.
  phase          TINYINT      GENERATED ALWAYS AS (CASE WHEN status = 2 THEN 0 ELSE status END) STORED,
  phase_at       DATETIME(6)  GENERATED ALWAYS AS
    (GREATEST(CASE WHEN status IN (0, 2) THEN available_at ELSE COALESCE(done_at, inserted_at) END,
      TIMESTAMP'1000-01-01 00:00:00')) STORED,
  PRIMARY KEY (seq),
  UNIQUE KEY `{table}_id` (event_id),
  -- The order in which a claim reads. Delayed and parked rows have a time after now; a claim steps over leased ones.
  KEY `{table}_due` (phase, phase_at, seq),
  -- For claims of the strict mode, the lag, and lists of pending rows.
  KEY `{table}_phase` (phase, seq),
  KEY `{table}_parked` (parked, seq),
  CONSTRAINT `{table}_has_id` CHECK (event_id <> ''),
  CONSTRAINT `{table}_has_type` CHECK (event_type <> ''),
  CONSTRAINT `{table}_status` CHECK (status IN (0, 1, 2, 3)),
  CONSTRAINT `{table}_one_payload` CHECK (size >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

