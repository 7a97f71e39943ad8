#!/bin/bash
# Handles POSTGRES_USER, _DB, _PASSWORD, _HOST_AUTH_METHOD, _INITDB_ARGS and /docker-entrypoint-initdb.d as the public image does.
set -euo pipefail
POSTGRES_DB=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}
if [ "$1" = postgres ] && [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA" /var/run/postgresql
    chown -R postgres "$PGDATA" /var/run/postgresql
    chmod 700 "$PGDATA"
    chmod 3777 /var/run/postgresql
    exec gosu postgres "$0" "$@"
fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") ${POSTGRES_INITDB_ARGS:-}
    printf '\nhost all all all %s\n' "${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o '-c listen_addresses= -p 5432' -w start
    if [ "$POSTGRES_DB" != postgres ]; then
        psql -v ON_ERROR_STOP=1 --no-password --username "$POSTGRES_USER" --dbname postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
    fi
    for script in /docker-entrypoint-initdb.d/*.sh; do
        [ -e "$script" ] && sh "$script"
    done
    pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec "$@"
