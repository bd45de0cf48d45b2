CREATE TABLE outbox_record (
  aggregate_id CHAR(36) NOT NULL, event_id CHAR(36) NOT NULL, status VARCHAR(16) NOT NULL,
  topic VARCHAR(255) NOT NULL, payload LONGBLOB NOT NULL, schema_version INT NOT NULL,
  retries INT DEFAULT 0, created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  sent_at TIMESTAMP(6) NULL, last_error VARCHAR(1000),
  PRIMARY KEY (aggregate_id, event_id), KEY (status, created_at));
