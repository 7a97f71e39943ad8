-- The last version of a provider that was removed. One that is set anew under its identifier goes on after it: whoever
-- keeps connections or credentials by version must not take the new one for the old.
CREATE TABLE removed_provider (
    app_id      bigint NOT NULL REFERENCES app,
    identifier  text NOT NULL,
    version     bigint NOT NULL,
    PRIMARY KEY (app_id, identifier)
);
