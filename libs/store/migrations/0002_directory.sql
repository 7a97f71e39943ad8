-- Users and what they chose.

CREATE TABLE app_user (
    app_id        bigint NOT NULL REFERENCES app,
    number        bigint GENERATED ALWAYS AS IDENTITY,
    identifier    text NOT NULL,
    profile       jsonb NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, number),
    UNIQUE (app_id, identifier)
);

CREATE TABLE category (
    app_id                      bigint NOT NULL REFERENCES app,
    id                          bigint GENERATED ALWAYS AS IDENTITY,
    identifier                  text NOT NULL,
    name                        text NOT NULL,
    critical                    boolean NOT NULL DEFAULT false,
    hide_in_in_app              boolean NOT NULL DEFAULT false,
    hide_in_preference_manager  boolean NOT NULL DEFAULT false,
    created_at                  timestamptz NOT NULL DEFAULT now(),
    updated_at                  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, id),
    UNIQUE (app_id, identifier)
);

CREATE TABLE preference (
    app_id        bigint NOT NULL,
    user_number   bigint NOT NULL,
    category_id   bigint NOT NULL,
    channel       text NOT NULL,
    enabled       boolean NOT NULL,
    PRIMARY KEY (app_id, user_number, category_id, channel),
    FOREIGN KEY (app_id, user_number) REFERENCES app_user (app_id, number) ON DELETE CASCADE,
    FOREIGN KEY (app_id, category_id) REFERENCES category (app_id, id) ON DELETE CASCADE
);

CREATE TABLE device (
    app_id        bigint NOT NULL,
    user_number   bigint NOT NULL,
    device_id     text NOT NULL,
    device_type   text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    connected_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, user_number, device_id),
    FOREIGN KEY (app_id, user_number) REFERENCES app_user (app_id, number) ON DELETE CASCADE
);

-- Targets that a provider called dead.
CREATE TABLE suppression (
    app_id        bigint NOT NULL REFERENCES app,
    channel       text NOT NULL,
    target        text NOT NULL,
    delivery_id   uuid NOT NULL,
    code          text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, channel, target)
);
