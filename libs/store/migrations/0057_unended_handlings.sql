-- Number of processes that began to handle a message and ended before they recorded an end of the handling.
ALTER TABLE message_failure ADD COLUMN unended integer NOT NULL DEFAULT 0;
