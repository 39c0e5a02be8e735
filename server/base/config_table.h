/* Every setting of the operator, one row each. A row defines the field of struct config, the flag,
 * the environment variable, the texts of --help, tallyd(8) and deploy/tallyd.env.example, and the
 * checks.
 *
 *   field      its name in struct config; the flag is --field with dashes, the variable TALLY_FIELD
 *   type       UINT a whole number, SIZE a byte count (proto/byte_size.h), BOOL, TEXT, CHOICE one
 *              of the words in `unit` (stored as its position), LIST texts (repeat the flag, or
 *              separate them by commas)
 *   default    as on the command line
 *   min, max   bounds of UINT and SIZE; of a LIST the number of entries, of a TEXT its length
 *   unit       shown in the help */
#ifndef TALLY_SERVER_CONFIG_TABLE_H
#define TALLY_SERVER_CONFIG_TABLE_H

#include "proto/byte_size.h"

/* clang-format off */
/*      field               type    default           min         max               unit
 *      help */
#define CONFIG_TABLE(GROUP, X)                                                                     \
GROUP("Network")                                                                                   \
X(listen,              LIST,   "127.0.0.1:8000", 1,          16,               "address",          \
  "Where to listen: ADDR:PORT, [V6ADDR]:PORT or unix:/path. Several: with commas, or the flag repeated.") \
X(probe_listen,        LIST,   "",               0,          4,                "address",          \
  "Where to listen for probes, as --listen: answers only /livez and /readyz, in plain HTTP, beside " \
  "--max-connections. For what supervises this process; clients should not reach it.")             \
X(socket_mode,         TEXT,   "auto",           1,          8,                "mode",             \
  "Permissions of the Unix sockets of --listen, in octal: to connect is to write. auto: 0600, and "  \
  "0660 with --socket-group. Sockets that systemd passes have those of their unit.")               \
X(socket_group,        TEXT,   "",               0,          64,               "group",            \
  "Group of the Unix sockets of --listen, by name or number: that of a proxy in front, for example. " \
  "tallyd must be in it, or root.")                                                                \
X(tls_cert,            TEXT,   "",               0,          4096,             "file",             \
  "Certificate, in PEM, with those between it and its authority behind it: serve HTTPS on every TCP " \
  "address, TLS 1.2 and 1.3. Unix sockets stay as they are. A file that changes is taken up without " \
  "a restart, this one and the next two.")                                                         \
X(tls_key,             TEXT,   "",               0,          4096,             "file",             \
  "Private key of --tls-cert, in PEM, without a password.")                                        \
X(tls_client_ca,       TEXT,   "",               0,          4096,             "file",             \
  "Authorities, in PEM: a client on a TCP address needs a certificate from one of them.")          \
X(token_file,          TEXT,   "",               0,          4096,             "file",             \
  "Tokens that clients need, for all but /livez and /readyz: lines name:sha256-hex[:scopes], as "  \
  "`tally token new NAME` prints them; scopes are infer, metrics and admin, by default infer. A "  \
  "file that changes is taken up without a restart.")                                              \
X(http_loops,          UINT,   "0",              0,          64,               "threads",          \
  "HTTP threads, among which connections are dealt out. 0: as --cpus, at most four.")              \
X(base_path,           TEXT,   "",               0,          256,              "path",             \
  "Prefix of every route, as a proxy in front may pass it on, for example /tally.")                \
X(console,             BOOL,   "true",           0,          1,                "true|false",       \
  "Answer browsers that ask for / with the console, a page to try and watch the service with.")    \
X(max_connections,     UINT,   "0",              0,          1000000,          "connections",      \
  "Open connections. Once all are taken, a client that has more than an equal part of them loses " \
  "some to one that has fewer; among equals the one that has been idle for longest is closed. 0: " \
  "as many as a quarter of the memory that is available to the process at start has room for, at " \
  "most 4096.")                                                                                    \
X(per_client_connections, UINT, "0",             0,          1000000,          "connections",      \
  "Connections of one address (IPv6: of one /64 network); further ones get 429 and are closed at "  \
  "once. Not of Unix sockets and --trusted-proxies. 0: no limit.")                                 \
X(per_client_requests, UINT,   "0",              0,          1000000,          "requests",         \
  "Requests of one client at a time, for tensors and pages, but for /livez and /readyz; beyond them " \
  "it gets 429. A client is a token's name, else the subject of a certificate, else an address. "  \
  "0: no limit.")                                                                                  \
X(per_client_bytes_per_s, SIZE, "0",             0,          SIZE_TIB,         "bytes/s",          \
  "Bytes of bodies that one client may send, over time; who is ahead gets 429 before the next body. " \
  "0: no limit.")                                                                                  \
X(per_client_memory,   SIZE,   "0",              0,          64 * SIZE_TIB,    "bytes",            \
  "Memory that the requests of one client may have together; beyond it 429, and 413 for a request " \
  "that alone needs more. 0: no limit but its part of --memory-budget.")                           \
X(trusted_proxies,     LIST,   "",               0,          16,               "network",          \
  "Proxies whose X-Forwarded-For says which address asks: 10.0.0.0/8, fd00::/8, 192.0.2.1, or unix " \
  "for all that come through Unix sockets. Several: with commas, or the flag repeated.")           \
X(cors_origins,        LIST,   "",               0,          16,               "origin",           \
  "Origins whose pages browsers let call this service: scheme://host[:port], as they send it, such "  \
  "as https://app.example; or * alone for every page there is, which lets any site that a user of "  \
  "this network visits call it. Several: with commas, or the flag repeated.")                      \
X(allow_client_shm,    BOOL,   "false",          0,          1,                "true|false",       \
  "Let clients on this machine pass tensors in POSIX shared memory (v2 protocol).")                \
X(shm_zero_copy,       BOOL,   "false",          0,          1,                "true|false",       \
  "Work in clients' shared memory where it is instead of copying it: faster, for clients that do "  \
  "not change it meanwhile (needs --allow-client-shm).")                                           \
X(shm_key_prefix,      TEXT,   "",               0,          200,              "text",             \
  "Names of shared memory objects that clients may register must begin with this.")                \
GROUP("Limits on requests")                                                                        \
X(max_body_bytes,      SIZE,   "4GiB",           1,          64 * SIZE_TIB,    "bytes",            \
  "Longest request body; a longer one gets 413.")                                                  \
X(max_header_bytes,    SIZE,   "16KiB",          4096,       16 * SIZE_MIB,    "bytes",            \
  "Request line and headers of one request; also the least buffer of a connection.")               \
X(max_rank,            UINT,   "64",             1,          LIMIT_RANK,       "dimensions",       \
  "Most dimensions of a tensor.")                                                                  \
X(memory_budget,       SIZE,   "0",              0,          64 * SIZE_TIB,    "bytes",            \
  "Memory for the tensors and texts of all requests together; large requests wait for it, small ones " \
  "get 503 beyond it. 0: half of what is available to the process at start.")                      \
X(queue_depth,         UINT,   "1024",           1,          1000000,          "requests",         \
  "Requests that may wait for a device, and large ones that may wait to begin; beyond them clients " \
  "get 503, before their bodies are read, but for one that has less than its part of them.")       \
X(inline_json_bytes,   SIZE,   "128KiB",         0,          SIZE_GIB,         "bytes",            \
  "JSON texts up to this size are parsed and printed on the HTTP thread, longer ones in the codec " \
  "pool.")                                                                                         \
GROUP("Deadlines")                                                                                 \
X(header_timeout_ms,   UINT,   "10000",          1,          86400000,         "ms",               \
  "From the first byte of a request to the end of its headers.")                                   \
X(body_timeout_ms,     UINT,   "600000",         1,          86400000,         "ms",               \
  "From the end of the headers to the end of the body.")                                           \
X(min_upload_rate,     SIZE,   "16KiB",          0,          SIZE_GIB,         "bytes/s",          \
  "A body that arrives slower than this, after ten seconds of grace, is cut off, and an answer "   \
  "that is read slower, after the time an idle connection has. 0: no minimum.")                    \
X(answer_timeout_ms,   UINT,   "600000",         1,          86400000,         "ms",               \
  "From the first to the last byte of an answer: a client that takes longer to read is cut off.")  \
X(idle_timeout_s,      UINT,   "75",             1,          86400,            "s",                \
  "A connection is closed after this long without a request, or without a byte of a body or an "    \
  "answer that is under way; clients expect more than 60.")                                        \
X(request_timeout_ms,  UINT,   "3600000",        0,          86400000,         "ms",               \
  "Deadline of each request, from its first byte on, unless the client's own (X-Request-Timeout-Ms) " \
  "is shorter: one that then still arrives, waits to begin, for a device or for a codec thread, or " \
  "whose text is being converted, gets 504. 0: none.")                                             \
X(device_timeout_ms,   UINT,   "60000",          10,         86400000,         "ms",               \
  "A device that has not finished a batch of 1 GiB or less after this long counts as hung; larger " \
  "batches get more in proportion. Loading a kernel may take as long; listing and opening devices, " \
  "and building a kernel, ten times as long.")                                                     \
X(drain_timeout_s,     UINT,   "30",             0,          86400,            "s",                \
  "On SIGTERM: how long requests that are being served may take to finish.")                       \
X(drain_delay_ms,      UINT,   "5000",           0,          600000,           "ms",               \
  "On SIGTERM: how long all are still served, with /readyz at 503, so that a balancer can look "   \
  "elsewhere. Not on SIGINT, nor where nobody has been connected for half a minute.")              \
GROUP("Devices")                                                                                   \
X(devices,             TEXT,   "all",            1,          4096,             "list",             \
  "OpenCL devices to use: all, cpu, gpu, or a comma-separated list of numbers and parts of names " \
  "(tallyd --list-devices shows them). The processor is used through Tally's own driver, or "      \
  "through another one that is named here, with one general kernel for all layouts, far slower. "  \
  "With cpu alone no other driver is asked for its devices.")                                      \
X(gpu_lookback,        CHOICE, "auto",           0,          0,                "auto|on|off",      \
  "Scan long lines on GPUs in one pass. auto: where a trial at the start proves right and fast; "  \
  "on: untried; off: always in two.")                                                              \
X(batch_max_requests,  UINT,   "256",            1,          4096,             "requests",         \
  "Most requests in one launch.")                                                                  \
X(batch_max_bytes,     SIZE,   "16MiB",          1,          SIZE_TIB,         "bytes",            \
  "Most tensor bytes in one launch of several requests.")                                          \
X(batch_delay_us,      UINT,   "0",              0,          1000000,          "us",               \
  "How long an idle device waits for more requests before it runs a batch that is not full; less "  \
  "where a deadline is near.")                                                                     \
X(slice_bytes,         SIZE,   "4MiB",           0,          SIZE_TIB,         "bytes",            \
  "A tensor of twice this or more is scanned in slices of at least this while its body still "     \
  "arrives, one of eight times this or more also when it is complete, about 5 ms at a time, so "  \
  "that others run between them; where its layout and the axis allow. A line of a layout that is "  \
  "not packed counts as 128 bytes at least. 0: never.")                                             \
X(cpus,                UINT,   "0",              0,          256,              "cores",            \
  "Cores that the service counts on: threads of the work pool, of Tally's own OpenCL driver and of "  \
  "PoCL's devices (unless POCL_MAX_PTHREAD_COUNT or POCL_CPU_MAX_CU_COUNT says otherwise). 0: what "  \
  "the process's affinity "                                                                         \
  "and the quotas of its control groups leave it, rounded up, at most 256.")                       \
X(codec_threads,       UINT,   "0",              0,          256,              "threads",          \
  "Threads that parse and print long JSON texts, unpack bodies and pack answers. 0: as --cpus, at " \
  "most 64.")                                                                                      \
GROUP("Start")                                                                                     \
X(allow_unknown_env,   BOOL,   "false",          0,          1,                "true|false",       \
  "Start even if the environment has a variable TALLY_... that neither tallyd nor a program "       \
  "beside it knows. By default such a variable, a misspelled one for example, ends the start.")    \
GROUP("Log")                                                                                       \
X(log_format,          CHOICE, "text",           0,          0,                "text|json",        \
  "Form of the lines on standard error.")                                                          \
X(log_level,           CHOICE, "info",           0,          0,                "error|warn|info|debug", \
  "Lines above this level are left out.")                                                          \
X(log_requests,        BOOL,   "true",           0,          1,                "true|false",       \
  "Write a line per request, at level info; of an answered probe (/livez, /readyz, /v2/health/live, " \
  "/v2/health/ready, --probe-listen) at level debug.")                                                      \
X(log_bytes_per_s,     SIZE,   "512KiB",         0,          SIZE_TIB,         "bytes/s",          \
  "Bytes of the lines that clients cause, each second: a client alone may have half of them, two a " \
  "third each, and so on. Lines beyond that are left out, and counted in a line for each client. "  \
  "0: no limit.")                                                                                  \
GROUP("Traces")                                                                                    \
X(otlp_endpoint,       TEXT,   "",               0,          4096,             "url",              \
  "Send OpenTelemetry spans of requests there, as OTLP/JSON over plain HTTP: "                     \
  "http://localhost:4318, where without a path it is /v1/traces. They are dropped rather than "    \
  "waited for.")                                                                                   \
X(otlp_rate,           UINT,   "100",            0,          10000000,         "traces/s",         \
  "Most traces per second that begin here, with tensors that come without a traceparent. What a "  \
  "caller has sampled is sent in any case, what it has not sampled never. 0: none begin here.")
/* clang-format on */

#endif
