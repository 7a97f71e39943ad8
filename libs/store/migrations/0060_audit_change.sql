-- The kind of actor, and what the change replaced. Rows of earlier releases have none of them.
ALTER TABLE audit ADD COLUMN actor_kind text, ADD COLUMN before jsonb, ADD COLUMN after jsonb;
