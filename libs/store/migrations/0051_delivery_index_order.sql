-- Claims and settlements look deliveries up by (app_id, id). On a table that was still nearly empty, PostgreSQL considered an index that
-- begins with app_id as cheap as the primary key, and a session kept such a plan: it read all deliveries of the app. From the next
-- migration on, only the primary key begins with app_id. Building an index blocks only writers.
SET LOCAL statement_timeout = 0;
CREATE INDEX delivery_of_send ON delivery (send_id, app_id, recipient_index);
CREATE INDEX delivery_of_user ON delivery (user_number, app_id);
