-- The new indexes replace the old ones. This has its own transaction, because dropping an index waits for the readers of the table too: a
-- transaction that already blocks its writers would deadlock with one that has read a delivery and now changes one.
DROP INDEX delivery_send, delivery_user;
ALTER INDEX delivery_of_send RENAME TO delivery_send;
ALTER INDEX delivery_of_user RENAME TO delivery_user;
