CREATE TABLE outbox_record (
  aggregate_id UUID NOT NULL, event_id UUID NOT NULL, status VARCHAR(16) NOT NULL, topic VARCHAR(255) NOT NULL,
  payload BYTEA NOT NULL, schema_version INT NOT NULL, retries INT DEFAULT 0,
  created_at TIMESTAMPTZ NOT NULL, sent_at TIMESTAMPTZ, last_error VARCHAR(1000),
  PRIMARY KEY (aggregate_id, event_id));
CREATE INDEX ON outbox_record (status, created_at);
