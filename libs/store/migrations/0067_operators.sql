-- Persons who sign in to the console, their roles and sessions.

CREATE TABLE operator (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- In lower case.
    email         text NOT NULL UNIQUE CHECK (email <> ''),
    -- PHC string of Argon2id. NULL until the operator has chosen a password.
    password      text,
    disabled_at   timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE operator_grant (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operator_id   bigint NOT NULL REFERENCES operator ON DELETE CASCADE,
    -- NULL: in all apps and the installation itself.
    app_id        bigint REFERENCES app,
    role          text NOT NULL
);
CREATE UNIQUE INDEX operator_grant_scope ON operator_grant (operator_id, coalesce(app_id, 0));

CREATE TABLE operator_session (
    -- SHA-256 of the token in the cookie.
    digest        bytea PRIMARY KEY,
    operator_id   bigint NOT NULL REFERENCES operator ON DELETE CASCADE,
    created_at    timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL
);
CREATE INDEX operator_session_operator ON operator_session (operator_id);
CREATE INDEX operator_session_age ON operator_session (expires_at);

-- One-time codes in links that sign an operator in or let one choose a password.
CREATE TABLE operator_code (
    -- SHA-256 of the code in the link.
    digest        bytea PRIMARY KEY,
    -- NULL: the code creates the first operator.
    operator_id   bigint REFERENCES operator ON DELETE CASCADE,
    -- True if the link signs in without asking for a new password.
    signs_in      boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL
);
