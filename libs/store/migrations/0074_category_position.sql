-- Position of a category on preference screens, ascending.
ALTER TABLE category ADD COLUMN position integer NOT NULL DEFAULT 0;
