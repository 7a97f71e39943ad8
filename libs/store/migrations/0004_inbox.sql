-- The inbox read model: a projection of the INBOX streams. Nothing here is written but by the projection.

CREATE TABLE inbox_item (
    app_id        bigint NOT NULL,
    user_number   bigint NOT NULL,
    id            bigint NOT NULL,
    send_id       uuid NOT NULL,
    category_id   bigint,
    created_at    timestamptz NOT NULL,
    seen_at       timestamptz,
    clicked_at    timestamptz,
    -- A tombstone: the item stays, without its content, so that a repeat of its event cannot bring it back.
    deleted_at    timestamptz,
    state         text,
    -- {title, message, icon, url, data, blocks} as text, which lists pass on unread.
    content       json,
    event_id      uuid NOT NULL,
    PRIMARY KEY (app_id, id),
    -- An inbox has one item of a send; with the send first, it also answers what became of it.
    UNIQUE (app_id, send_id, user_number)
);
CREATE INDEX inbox_item_list ON inbox_item (app_id, user_number, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE inbox_counter (
    app_id        bigint NOT NULL,
    user_number   bigint NOT NULL,
    total         bigint NOT NULL,
    unread        bigint NOT NULL,
    unseen        bigint NOT NULL,
    PRIMARY KEY (app_id, user_number)
) WITH (fillfactor = 70);

-- Last stream sequence that a projection committed, in the transaction of its rows.
CREATE TABLE checkpoint (
    projection    text NOT NULL,
    stream        text NOT NULL,
    seq           bigint NOT NULL,
    PRIMARY KEY (projection, stream)
) WITH (fillfactor = 50);

CREATE TABLE dead_event (
    projection    text NOT NULL,
    stream        text NOT NULL,
    seq           bigint NOT NULL,
    message       bytea NOT NULL,
    cause         text NOT NULL,
    at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (projection, stream, seq)
);

-- Which streams this database belongs to; any other stream of the same name is refused.
CREATE TABLE stream_identity (
    name          text PRIMARY KEY,
    created_at    timestamptz NOT NULL
);

-- Facts fixed when the installation was made.
CREATE TABLE installation (
    singleton     boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    partitions    integer NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);
