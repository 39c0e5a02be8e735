# The service in a container: docker build -t tally . (podman and buildah build it as well).
# docs/image.md has sizes and start times; deploy/compose.yaml runs it locked down.
ARG BASE=docker.io/library/debian:trixie-slim

FROM ${BASE} AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/install-deps.sh
RUN sh deploy/install-deps.sh run
COPY Makefile Makefile
COPY proto proto
COPY kernels kernels
COPY server server
COPY client client
RUN make -j"$(nproc)" all-levels && strip build/bin/tallyd build/bin/tally

FROM ${BASE}
# Tally's own driver runs on the processor; a GPU's comes with an image on top of this one.
RUN set -eu; \
    export DEBIAN_FRONTEND=noninteractive; \
    apt-get update -q; \
    apt-get install -y -q --no-install-recommends ocl-icd-libopencl1 \
        libmicrohttpd12t64 libuv1t64 libjansson4 libcurl4t64 zlib1g libstdc++6; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/cache/ldconfig/* \
        /var/log/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
COPY --from=build /src/build/bin/tallyd /src/build/bin/tally /usr/local/bin/

# Nothing is written: the root may be read-only.
ENV TALLY_LISTEN=0.0.0.0:8000
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/tally", "health", "--retries", "0", "--timeout", "4"]
ENTRYPOINT ["/usr/local/bin/tallyd"]
