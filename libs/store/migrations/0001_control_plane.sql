-- Apps and what operators set up for them. Every tenant table's key starts with app_id.

CREATE TABLE app (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text NOT NULL UNIQUE CHECK (name <> ''),
    api_key       text NOT NULL UNIQUE,
    disabled      boolean NOT NULL DEFAULT false,
    development   boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now()
);

-- Two may live at once while rotating. The digest proves a caller; the sealed text is for signatures keyed by it.
CREATE TABLE app_secret (
    app_id        bigint NOT NULL REFERENCES app,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    digest        bytea NOT NULL,
    sealed        bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz,
    PRIMARY KEY (app_id, id)
);

CREATE TABLE provider (
    app_id        bigint NOT NULL REFERENCES app,
    identifier    text NOT NULL CHECK (identifier <> ''),
    channel       text NOT NULL,
    kind          text NOT NULL,
    priority      integer NOT NULL,
    enabled       boolean NOT NULL,
    settings      jsonb NOT NULL,
    sealed        bytea,
    version       bigint NOT NULL DEFAULT 1,
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, identifier)
);

CREATE TABLE template (
    app_id        bigint NOT NULL REFERENCES app,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    identifier    text NOT NULL CHECK (identifier <> ''),
    version       integer NOT NULL,
    PRIMARY KEY (app_id, id),
    UNIQUE (app_id, identifier)
);

-- Immutable: a send keeps the version that it was planned with.
CREATE TABLE template_version (
    app_id        bigint NOT NULL,
    template_id   bigint NOT NULL,
    version       integer NOT NULL,
    name          text NOT NULL,
    category      text,
    channels      json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, template_id, version),
    FOREIGN KEY (app_id, template_id) REFERENCES template (app_id, id)
);

CREATE TABLE audit (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id        bigint,
    at            timestamptz NOT NULL DEFAULT now(),
    actor         text NOT NULL,
    action        text NOT NULL,
    subject       text NOT NULL
);
