-- The only channels on which a topic may reach a subscriber. NULL: all.

ALTER TABLE topic_subscription ADD COLUMN channels text[];

-- Paths name a topic by its identifier or its id. Apps like their own numbers as identifiers, and these are smaller than the ids from here on.
ALTER TABLE topic ALTER COLUMN id RESTART WITH 1000000000000;
