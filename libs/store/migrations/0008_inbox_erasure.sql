-- Tombstones of a user, which an erasure deletes with the rest. Adding items costs nothing here.
CREATE INDEX inbox_item_tombstone ON inbox_item (app_id, user_number) WHERE deleted_at IS NOT NULL;
