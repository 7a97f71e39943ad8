#!/bin/sh
# Creates the PostgreSQL role of the services. The PostgreSQL image runs this script when it creates the database. `tidings migrate
# --service-role tidings_service` grants the role its rights.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$SERVICE_PASSWORD" --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
CREATE ROLE tidings_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
SQL
