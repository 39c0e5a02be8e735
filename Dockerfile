# The service in containers: docker build -t tally . (podman and buildah build it as well). The default image is
# tallyd, tally and the libraries they need; the target `debian` is to build on, for a GPU's driver.
# docs/image.md has sizes and start times; deploy/compose.yaml runs it locked down.
ARG BASE=docker.io/library/debian:trixie-slim

FROM ${BASE} AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/install-deps.sh
RUN sh deploy/install-deps.sh run
COPY . .
RUN make -j"$(nproc)" install DESTDIR=/installed && \
    strip /installed/usr/local/bin/* /installed/usr/local/lib/*.so*

FROM ${BASE} AS debian
RUN apt-get update -q && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates \
        ocl-icd-libopencl1 libmicrohttpd12t64 libgnutls30t64 libuv1t64 libjansson4 libcurl4t64 zlib1g libdeflate0 libstdc++6 && \
    apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed /
RUN ldconfig
ENV TALLY_LISTEN=0.0.0.0:8000
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/tally", "health", "--retries", "0", "--timeout", "4"]
ENTRYPOINT ["/usr/local/bin/tallyd"]

FROM debian AS root
USER root
COPY deploy/image-root.sh /
RUN sh /image-root.sh /image

# No shell and nothing else to start. Nothing is written: the root may be read-only.
FROM scratch
COPY --from=root /image /
ENV TALLY_LISTEN=0.0.0.0:8000
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/tally", "health", "--retries", "0", "--timeout", "4"]
ENTRYPOINT ["/usr/local/bin/tallyd"]
