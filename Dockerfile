# The service in containers: docker build -t tally . (podman and buildah build it as well). The default image is
# tallyd, tally and the libraries they need; the target `debian` is to build on, for a GPU's driver.
# docs/image.md has sizes and start times; deploy/compose.yaml runs it locked down.
#
# The base is named by its tag, which stands for another image every few weeks. tests/image/build.sh finds out for which
# it stood, and passes name and digest: labels and the list of what the image is made of have both. By hand, or for the
# same base again: --build-arg BASE=docker.io/library/debian:trixie-slim@sha256:... (docs/image.md).
ARG BASE=docker.io/library/debian:trixie-slim
# Of the labels; tests/image/build.sh sets the commit and its time.
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z

FROM ${BASE} AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/install-deps.sh
RUN sh deploy/install-deps.sh run
COPY . .
RUN make -j"$(nproc)" install DESTDIR=/installed && \
    strip /installed/usr/local/bin/* /installed/usr/local/lib/*.so*

# What both images say of themselves.
FROM scratch AS service
ARG BASE
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="Tally" \
    org.opencontainers.image.description="Cumulative sums of tensors over HTTP" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.created="${CREATED}" \
    org.opencontainers.image.base.name="${BASE}"
ENV TALLY_LISTEN=0.0.0.0:8000
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/tally", "health", "--retries", "0", "--timeout", "4"]
ENTRYPOINT ["/usr/local/bin/tallyd"]

# The file system of the image, laid out where it was built: that system has all libraries that the programs need.
# deploy/release.sh lays it out for both architectures elsewhere, and passes it in the place of this stage.
FROM build AS root
ARG BASE
ARG VERSION
RUN apt-get install -y -q --no-install-recommends ca-certificates && \
    sh deploy/image-root.sh /installed/usr/local/bin /image "$VERSION" "$BASE"

FROM ${BASE} AS system
RUN apt-get update -q && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates \
        ocl-icd-libopencl1 libmicrohttpd12t64 libgnutls30t64 libuv1t64 libjansson4 libcurl4t64 zlib1g libisal2 libstdc++6 && \
    apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed /
RUN ldconfig

FROM service AS debian
COPY --from=system / /

# No shell and nothing else to start. Nothing is written: the root may be read-only.
FROM service
COPY --from=root /image /
