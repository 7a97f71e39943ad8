-- What tokens name, what templates see, and how much an app may hold. Existing apps keep what they had.
ALTER TABLE app
    -- How the claim sub names a user: as user:{identifier}, as {identifier}, or either way.
    ADD COLUMN token_subject    text NOT NULL DEFAULT 'either' CHECK (token_subject IN ('prefixed', 'bare', 'either')),
    -- Whether templates see whole profiles, or the key `app` alone, which the backend writes.
    ADD COLUMN template_profile text NOT NULL DEFAULT 'all' CHECK (template_profile IN ('all', 'app')),
    -- Quotas. NULL: the default.
    ADD COLUMN max_users        bigint CHECK (max_users > 0),
    ADD COLUMN max_categories   bigint CHECK (max_categories > 0),
    ADD COLUMN max_devices      bigint CHECK (max_devices > 0);

-- A secret can be opened only while signatures are keyed by it. Empty rather than NULL: the release before reads both.
UPDATE app_secret SET sealed = '' FROM app WHERE app.id = app_secret.app_id AND NOT app.hmac;
