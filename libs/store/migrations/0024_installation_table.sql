-- The number of the table itself, beside the database that it was written in: a dump that is restored over the database
-- that it was taken from makes the table anew, under another number. NULL: not recorded yet.
ALTER TABLE installation ADD COLUMN table_oid bigint;
