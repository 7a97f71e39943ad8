-- The only channels on which a topic may reach a subscriber. NULL: all.

ALTER TABLE topic_subscription ADD COLUMN channels text[];
