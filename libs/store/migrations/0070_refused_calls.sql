-- The latest calls of each app that the API refused, for the people who look for the error. The dispatcher keeps the table small.
CREATE TABLE refused_call (
    app_id        bigint NOT NULL REFERENCES app,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    -- Time of the latest of the calls that the row stands for.
    at            timestamptz NOT NULL,
    -- Number of equal calls within the time that a gateway collects.
    times         integer NOT NULL,
    status        integer NOT NULL,
    method        text NOT NULL,
    -- Pattern of the path, without ids.
    route         text NOT NULL,
    code          text NOT NULL,
    fields        text[] NOT NULL,
    -- Start of the API key.
    api_key       text NOT NULL,
    -- Network of the client.
    client        text NOT NULL,
    -- True if the caller proved who it is: by the API secret, a token or a signature.
    proven        boolean NOT NULL,
    PRIMARY KEY (app_id, id)
);
CREATE INDEX refused_call_age ON refused_call (at);
