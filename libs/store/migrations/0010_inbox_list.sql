-- Lists and counts find in the index whatever they go by, so that a page far back, with any filter, reads no item but
-- those that it shows.
DROP INDEX inbox_item_list;
CREATE INDEX inbox_item_list ON inbox_item (app_id, user_number, created_at DESC, id DESC)
    INCLUDE (category_id, seen_at, clicked_at, state) WHERE deleted_at IS NULL;
