-- Lists find archived and snoozed items in the index, without reading their rows. Building an index blocks only writers.
SET LOCAL statement_timeout = 0;
CREATE INDEX inbox_item_place ON inbox_item (app_id, user_number, created_at DESC, id DESC)
    INCLUDE (category_id, seen_at, clicked_at, state, archived_at, snoozed_until) WHERE deleted_at IS NULL;
-- Finds the snoozes that have ended.
CREATE INDEX inbox_item_snoozed ON inbox_item (snoozed_until, app_id, id) WHERE snoozed_until IS NOT NULL;
DROP INDEX inbox_item_list;
ALTER INDEX inbox_item_place RENAME TO inbox_item_list;
