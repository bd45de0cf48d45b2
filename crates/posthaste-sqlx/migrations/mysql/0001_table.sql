-- An outbox: events wait here from the commit of their transaction until they are settled.
--
-- Times are UTC, whatever the time zones of the server and of its clients are.
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
  -- Text keeps the bytes that a client sends; JSON does not.
  payload        LONGTEXT,
  payload_bytes  LONGBLOB,
  headers        LONGTEXT,
  status         TINYINT      NOT NULL DEFAULT 0,
  attempts       INT          NOT NULL DEFAULT 0,
  deferrals      INT          NOT NULL DEFAULT 0,
  lost_leases    INT          NOT NULL DEFAULT 0,
  replays        INT          NOT NULL DEFAULT 0,
  parked         VARCHAR(255),
  progress       LONGTEXT,
  -- Since when the row has been put off for a limited time, and the longest limit since then, in microseconds.
  put_off_since  DATETIME(6),
  put_off_limit  BIGINT,
  -- When the row is due: at once, after a delay, at its retry time, or when its lease ends.
  available_at   DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  created_at     DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  inserted_at    DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  done_at        DATETIME(6),
  last_error     LONGTEXT,
  locked_by      VARCHAR(128),
  locked_at      DATETIME(6),
  lease_token    BIGINT       NOT NULL DEFAULT 0,
  -- Which call settled the row last, so that one statement can ask what another did.
  settlement     BIGINT       NOT NULL DEFAULT 0,
  -- Claims ask how large a row is before they read it: a payload that lies outside its row would be read for the
  -- question alone. Not a generated column, for which MariaDB reads what it was generated from. -1 where not exactly one
  -- of payload and payload_bytes is there: a CHECK on the payload itself would read it for every UPDATE.
  size           BIGINT       NOT NULL DEFAULT
    (CASE WHEN (payload IS NULL) <> (payload_bytes IS NULL)
      THEN COALESCE(LENGTH(payload), LENGTH(payload_bytes)) + COALESCE(LENGTH(headers), 0) ELSE -1 END),
  -- There are no partial indexes here. These two make one index serve claims and purges alike: what
  -- is pending (0), done (1) and dead (3) lies apart, each by its own time. What has none, or one before
  -- the calendar of a DATETIME begins, counts from its first day: MySQL asks before it fills in defaults.
  phase          TINYINT      GENERATED ALWAYS AS (CASE WHEN status = 2 THEN 0 ELSE status END) STORED,
  phase_at       DATETIME(6)  GENERATED ALWAYS AS
    (GREATEST(CASE WHEN status IN (0, 2) THEN available_at ELSE COALESCE(done_at, inserted_at) END,
      TIMESTAMP'1000-01-01 00:00:00')) STORED,
  PRIMARY KEY (seq),
  UNIQUE KEY `{table}_id` (event_id),
  -- Exactly what a claim reads, in its order. Leased, delayed and parked rows lie beyond "now".
  KEY `{table}_due` (phase, phase_at, seq),
  -- Ordered claims, the lag, and lists.
  KEY `{table}_phase` (phase, seq),
  KEY `{table}_parked` (parked, seq),
  CONSTRAINT `{table}_has_id` CHECK (event_id <> ''),
  CONSTRAINT `{table}_has_type` CHECK (event_type <> ''),
  CONSTRAINT `{table}_status` CHECK (status IN (0, 1, 2, 3)),
  CONSTRAINT `{table}_one_payload` CHECK (size >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

