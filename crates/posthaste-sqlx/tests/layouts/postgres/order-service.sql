CREATE TABLE outbox (
  id UUID PRIMARY KEY, aggregate_type VARCHAR(255) NOT NULL, aggregate_id UUID NOT NULL,
  event_type VARCHAR(255) NOT NULL, payload TEXT NOT NULL, status VARCHAR(50) NOT NULL,
  created_at TIMESTAMP NOT NULL, sent_at TIMESTAMP, error_message TEXT);
CREATE INDEX idx_outbox_status_created ON outbox (status, created_at);
CREATE INDEX idx_outbox_aggregate ON outbox (aggregate_id);
