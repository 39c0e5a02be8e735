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
# PoCL compiles OpenCL for the CPU with LLVM, and links what it compiled with ld. Of the compiler
# packages it depends on it needs no more than ld and libgcc.a: the rest is taken out again, in
# this layer, so that it never weighs. The package database stays true, for scanners.
RUN set -eu; \
    export DEBIAN_FRONTEND=noninteractive; \
    apt-get update -q; \
    apt-get install -y -q --no-install-recommends pocl-opencl-icd ocl-icd-libopencl1 \
        libmicrohttpd12t64 libuv1t64 libjansson4 libcurl4t64 zlib1g libstdc++6; \
    lib=$(dirname "$(ldconfig -p | sed -n 's/.*=> \(.*\/libc\.so\.6\)$/\1/p' | head -n 1)"); \
    cp /usr/lib/gcc/*/*/libgcc.a "$lib/libgcc.a"; \
    dpkg-query -W -f '${Package}\n' 'clang-[0-9]*' 'libclang1-*' 'libclang-common-*' \
        'libstdc++-*-dev' 'libgcc-*-dev' 'libobjc*' 'libgc1' 'libc6-dev' 'libc-dev-bin' \
        'linux-libc-dev' 'libcrypt-dev' 'rpcsvc-proto' 'lib*san[0-9]*' 'libitm1' 'libquadmath0' \
        'libgomp1' 'libatomic1' 'llvm-*-linker-tools' 'llvm-spirv-*' 'libllvmspirvlib*' \
        'libgprofng0' 2>/dev/null | xargs dpkg --purge --force-depends; \
    ln -sf libc.so.6 "$lib/libc.so"; \
    ln -sf libm.so.6 "$lib/libm.so"; \
    ln -sf libgcc_s.so.1 "$lib/libgcc_s.so"; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/cache/ldconfig/* \
        /var/log/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*; \
    install -d -o 65532 -g 65532 -m 0700 /var/cache/tally
COPY --from=build /src/build/bin/tallyd /src/build/bin/tally /usr/local/bin/

# Compiled kernels live in one volume (or tmpfs); everything else may be read-only.
ENV TALLY_LISTEN=0.0.0.0:8000 \
    TALLY_KERNEL_CACHE=/var/cache/tally \
    HOME=/var/cache/tally
VOLUME /var/cache/tally
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/tally", "health", "--retries", "0", "--timeout", "4"]
ENTRYPOINT ["/usr/local/bin/tallyd"]
