-- The user whose delivery caused the suppression. Written when that delivery is removed because of its age: until then, the delivery names
-- the user. An erasure removes the suppressions of both kinds.
ALTER TABLE suppression ADD COLUMN user_number bigint;
CREATE INDEX suppression_user ON suppression (app_id, user_number) WHERE user_number IS NOT NULL;
