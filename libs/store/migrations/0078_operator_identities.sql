-- How and where sessions began, identities at an OpenID provider, and the circumstances of a change in the audit log.

ALTER TABLE operator
    ADD COLUMN signed_in_at     timestamptz;

ALTER TABLE operator_session
    -- 'password', 'link' or 'oidc'. NULL in sessions that an earlier release opened.
    ADD COLUMN method           text,
    -- Time at which the OpenID provider authenticated the operator, if it named one.
    ADD COLUMN authenticated_at timestamptz,
    -- Network of the client, such as 192.0.2.x.
    ADD COLUMN network          text,
    -- Such as Firefox on Linux.
    ADD COLUMN browser          text;

-- Roles by a claim of the OpenID provider are replaced at each sign-in. Roles given by hand stay.
ALTER TABLE operator_grant
    ADD COLUMN by_claim         boolean NOT NULL DEFAULT false;
DROP INDEX operator_grant_scope;
CREATE UNIQUE INDEX operator_grant_scope ON operator_grant (operator_id, coalesce(app_id, 0), by_claim);

CREATE TABLE operator_identity (
    issuer        text NOT NULL,
    subject       text NOT NULL,
    operator_id   bigint NOT NULL REFERENCES operator ON DELETE CASCADE,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (issuer, subject)
);
CREATE UNIQUE INDEX operator_identity_operator ON operator_identity (operator_id, issuer);

-- Address of the caller, and the request of the console. NULL for commands, and in rows of earlier releases.
ALTER TABLE audit
    ADD COLUMN ip               text,
    ADD COLUMN request_id       uuid;
