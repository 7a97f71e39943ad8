-- An insert into a table with a foreign key locks the row that it refers to. All sends of an app shared the lock on the row of the app, and
-- PostgreSQL writes that row again to record who shares it. Apps are never removed, so the constraints protect nothing.
ALTER TABLE idempotency_key DROP CONSTRAINT idempotency_key_app_id_fkey;
ALTER TABLE request DROP CONSTRAINT request_app_id_fkey;
