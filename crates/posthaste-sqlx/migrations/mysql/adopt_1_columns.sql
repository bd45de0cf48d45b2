-- A TIMESTAMP is converted to a DATETIME in the time zone of the session.
SET time_zone = '+00:00';

-- Times without a zone count as UTC. Writes every row again.
ALTER TABLE `{table}`
  CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  MODIFY COLUMN payload        LONGTEXT,
  MODIFY COLUMN headers        LONGTEXT,
  MODIFY COLUMN last_error     LONGTEXT,
  MODIFY COLUMN aggregate_type VARCHAR(64) DEFAULT '__GLOBAL__',
  MODIFY COLUMN status         TINYINT     NOT NULL DEFAULT 0,
  MODIFY COLUMN attempts       INT         NOT NULL DEFAULT 0,
  MODIFY COLUMN available_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  MODIFY COLUMN created_at     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  MODIFY COLUMN done_at        DATETIME(6),
  MODIFY COLUMN locked_at      DATETIME(6),
  ADD COLUMN seq            BIGINT FIRST,
  ADD COLUMN topic          TEXT,
  ADD COLUMN content_type   TEXT,
  ADD COLUMN schema_version BIGINT,
  ADD COLUMN payload_bytes  LONGBLOB,
  ADD COLUMN deferrals      INT         NOT NULL DEFAULT 0,
  ADD COLUMN lost_leases    INT         NOT NULL DEFAULT 0,
  ADD COLUMN replays        INT         NOT NULL DEFAULT 0,
  ADD COLUMN parked         VARCHAR(255),
  ADD COLUMN progress       LONGTEXT,
  ADD COLUMN put_off_since  DATETIME(6),
  ADD COLUMN put_off_limit  BIGINT,
  ADD COLUMN inserted_at    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  ADD COLUMN lease_until    DATETIME(6),
  ADD COLUMN lease_token    BIGINT      NOT NULL DEFAULT 0,
  ADD COLUMN settlement     BIGINT      NOT NULL DEFAULT 0,
  ADD COLUMN size           BIGINT      NOT NULL DEFAULT
    (CASE WHEN (payload IS NULL) <> (payload_bytes IS NULL)
      THEN COALESCE(LENGTH(payload), LENGTH(payload_bytes)) + COALESCE(LENGTH(headers), 0) ELSE -1 END);

