-- Users archive and snooze items. Such items leave the list, and the counters of the list.
ALTER TABLE inbox_item ADD COLUMN archived_at timestamptz, ADD COLUMN snoozed_until timestamptz;
ALTER TABLE inbox_counter ADD COLUMN hidden bigint NOT NULL DEFAULT 0;
