CREATE TABLE outboxevent (
  id UUID PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
  type VARCHAR(255) NOT NULL, payload JSONB);
