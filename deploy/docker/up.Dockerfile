# The image for trials: `tidings up`, with PostgreSQL and nats-server inside. It is not for production: it prints credentials, and every
# machine that reaches its ports can use them. From the root of the checkout:
#   docker build --file deploy/docker/Dockerfile --build-arg FEATURES=development --tag tidings:development .
#   docker build --file deploy/docker/up.Dockerfile --tag tidings-up deploy/docker
#   docker run --rm -p 127.0.0.1:8080:8080 -p 127.0.0.1:8025:8025 -p 127.0.0.1:8081:8081 -p 127.0.0.1:8090:8090 tidings-up
ARG PROGRAM=tidings:development

FROM ${PROGRAM} AS program
FROM nats:2.12-alpine AS nats

FROM postgres:17-bookworm
COPY --from=program /usr/local/bin/tidings /usr/local/bin/tidings
COPY --from=program /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=nats /usr/local/bin/nats-server /usr/local/bin/nats-server
RUN install --directory --mode=0700 --owner=postgres --group=postgres /data
WORKDIR /data
USER postgres
VOLUME /data
# API, outbox, demo shop, console.
EXPOSE 8080 8025 8081 8090
STOPSIGNAL SIGTERM
ENTRYPOINT ["tidings", "up", "--data-dir", "/data/.tidings", "--all-interfaces", "--port", "8080", "--outbox-port", "8025", "--demo-port", "8081", "--console-port", "8090"]
CMD []
