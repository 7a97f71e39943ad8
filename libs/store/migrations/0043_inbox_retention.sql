-- Inbox items are removed by age. Items that were created before this time may be missing although the log adds them.
SET LOCAL statement_timeout = 0;
ALTER TABLE installation ADD COLUMN inbox_removed_before timestamptz;
-- Finds the oldest rows, of existing and of deleted items.
CREATE INDEX inbox_item_age ON inbox_item (created_at);
