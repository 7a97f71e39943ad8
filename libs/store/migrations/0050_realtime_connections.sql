-- Maximum number of live connections of an app at each gateway; NULL for no limit but the gateway's own.
ALTER TABLE app ADD COLUMN realtime_connections bigint;
