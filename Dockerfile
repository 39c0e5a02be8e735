# The service in containers: docker build -t tally . (or podman, or buildah). The default image has tallyd, tally and
# the libraries that they need. The target `debian` is a base for images with the driver of a GPU. docs/image.md has
# sizes and start times; deploy/compose.yaml runs the image with few rights.
#
# The tag of the base refers to a new image every few weeks. tests/image/build.sh determines the digest of that
# image, and passes name and digest; the labels and the list of components contain both. To build on the same
# base again, pass its digest: --build-arg BASE=docker.io/library/debian:trixie-slim@sha256:... (docs/image.md).
ARG BASE=docker.io/library/debian:trixie-slim
# Values of the labels; tests/image/build.sh sets the commit and its time.
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

# Labels, settings and entry point of both images.
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

# The file system of the image. It is created on top of the build stage, which has all libraries that the programs need.
# deploy/release.sh creates it outside of this file, for both architectures, and replaces this stage by it.
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

# The image has no shell and no other programs. Nothing is written to its file system, so the root may be read-only.
FROM service
COPY --from=root /image /
