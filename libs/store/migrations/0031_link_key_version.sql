-- Several keys of an app for its links: the latest one signs, those before it are good for a while. Links name their key by
-- a random id, which tells nothing of the app.
ALTER TABLE app_link_key
    ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    -- NULL: the key in use.
    ADD COLUMN expires_at timestamptz,
    -- Whether links under it are sealed. Processes of the release before read signed ones alone, so apps of that time go on
    -- with those until their key is rotated.
    ADD COLUMN seals boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT app_link_key_pkey,
    ADD PRIMARY KEY (app_id, version),
    ADD CONSTRAINT app_link_key_id UNIQUE (id);
ALTER TABLE app_link_key ALTER COLUMN seals SET DEFAULT true;
