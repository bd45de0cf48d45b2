-- Routes that an operator has paused.
CREATE TABLE IF NOT EXISTS `{table}_control` (
  route     VARCHAR(255) NOT NULL PRIMARY KEY,
  paused_at DATETIME(6)  NOT NULL,
  paused_by VARCHAR(255) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Changes by operators.
CREATE TABLE IF NOT EXISTS `{table}_audit` (
  seq    BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at     DATETIME(6) NOT NULL,
  actor  TEXT        NOT NULL,
  action TEXT        NOT NULL,
  target TEXT        NOT NULL,
  `rows` BIGINT      NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Delivered or dead events that the configuration keeps after their rows left the outbox.
CREATE TABLE IF NOT EXISTS `{table}_archive` (
  seq            BIGINT       NOT NULL,
  event_id       VARCHAR(36)  NOT NULL,
  event_type     VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64),
  aggregate_id   VARCHAR(128),
  tenant_id      VARCHAR(64),
  topic          TEXT,
  content_type   TEXT,
  schema_version BIGINT,
  payload        LONGTEXT,
  payload_bytes  LONGBLOB,
  headers        LONGTEXT,
  status         TINYINT      NOT NULL,
  attempts       INT          NOT NULL,
  deferrals      INT          NOT NULL,
  lost_leases    INT          NOT NULL,
  replays        INT          NOT NULL,
  parked         VARCHAR(255),
  progress       LONGTEXT,
  available_at   DATETIME(6)  NOT NULL,
  created_at     DATETIME(6)  NOT NULL,
  inserted_at    DATETIME(6)  NOT NULL,
  done_at        DATETIME(6),
  last_error     LONGTEXT,
  locked_by      VARCHAR(128),
  locked_at      DATETIME(6),
  lease_until    DATETIME(6),
  lease_token    BIGINT       NOT NULL,
  archived_at    DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (seq, archived_at),
  KEY `{table}_archive_id` (event_id),
  KEY `{table}_archive_at` (archived_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

