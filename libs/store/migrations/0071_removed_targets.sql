-- The push tokens and browser subscriptions that a suppression has removed from a person. Building an index blocks only writers.
SET LOCAL statement_timeout = 0;
CREATE INDEX suppression_pruned ON suppression USING gin (pruned jsonb_path_ops) WHERE pruned IS NOT NULL;
