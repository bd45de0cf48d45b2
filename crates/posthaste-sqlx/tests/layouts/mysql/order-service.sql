CREATE TABLE outbox (
  id CHAR(36) PRIMARY KEY, aggregate_type VARCHAR(255) NOT NULL, aggregate_id CHAR(36) NOT NULL,
  event_type VARCHAR(255) NOT NULL, payload TEXT NOT NULL, status VARCHAR(50) NOT NULL,
  created_at DATETIME(6) NOT NULL, sent_at DATETIME(6), error_message TEXT,
  KEY idx_outbox_status_created (status, created_at), KEY idx_outbox_aggregate (aggregate_id));
