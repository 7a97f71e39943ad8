#!/bin/sh
# Run by the PostgreSQL image when it creates the database: the role that services connect as. `tidings migrate
# --service-role tidings_service` grants what it may do.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$SERVICE_PASSWORD" --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
CREATE ROLE tidings_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
SQL
