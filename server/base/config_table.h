/* The table of all settings of the operator, one row each. A row defines the field of struct
 * config, the flag, the environment variable, the texts of --help, tallyd(8) and
 * deploy/tallyd.env.example, and the checks.
 *
 *   field      name in struct config; the flag is --field with dashes, the variable is
 *              TALLY_FIELD
 *   type       UINT a whole number, SIZE a byte count (proto/byte_size.h), BOOL, TEXT, CHOICE
 *              one of the words in `unit` (stored as its position), LIST texts (repeat the
 *              flag, or separate them by commas)
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
  "Addresses to listen on: ADDR:PORT, [V6ADDR]:PORT or unix:/path. Several: with commas, or the "  \
  "flag repeated.")                                                                                \
X(probe_listen,        LIST,   "",               0,          4,                "address",          \
  "Addresses for probes, as --listen: they answer only /livez and /readyz, in plain HTTP, "        \
  "and their connections do not count towards --max-connections. For the supervisor of "           \
  "this process; clients should not reach them.")                                                  \
X(socket_mode,         TEXT,   "auto",           1,          8,                "mode",             \
  "Permissions of the Unix sockets of --listen, in octal; a client needs write permission "        \
  "to connect. auto: 0600, or 0660 with --socket-group. Sockets that systemd passes have "         \
  "the permissions of their unit.")                                                                \
X(socket_group,        TEXT,   "",               0,          64,               "group",            \
  "Group of the Unix sockets of --listen, by name or number, for example the group of a "          \
  "proxy. tallyd must be a member of the group, or root.")                                         \
X(tls_cert,            TEXT,   "",               0,          4096,             "file",             \
  "Certificate, in PEM, followed by the intermediate certificates: serve HTTPS on every "          \
  "TCP address, TLS 1.2 and 1.3. Unix sockets do not change. Changes of this file and of "         \
  "the next two are loaded without a restart.")                                                    \
X(tls_key,             TEXT,   "",               0,          4096,             "file",             \
  "Private key of --tls-cert, in PEM, without a password.")                                        \
X(tls_client_ca,       TEXT,   "",               0,          4096,             "file",             \
  "Authorities, in PEM: a client on a TCP address needs a certificate from one of them.")          \
X(token_file,          TEXT,   "",               0,          4096,             "file",             \
  "Tokens, one of which every route but /livez and /readyz requires: lines "                       \
  "name:sha256-hex[:scopes], as `tally token new NAME` prints them; scopes are infer, "            \
  "metrics and admin, by default infer. Changes of the file are loaded without a restart.")        \
X(http_loops,          UINT,   "0",              0,          64,               "threads",          \
  "HTTP threads, over which connections are distributed. 0: as --cpus, at most four.")             \
X(base_path,           TEXT,   "",               0,          256,              "path",             \
  "Prefix of every route, for a proxy that forwards paths with it, for example /tally.")           \
X(console,             BOOL,   "true",           0,          1,                "true|false",       \
  "Answer browsers that ask for / with the console, a page to try and to watch the "               \
  "service.")                                                                                      \
X(max_connections,     UINT,   "0",              0,          1000000,          "connections",      \
  "Most open connections. When all are in use, a client that has more than an equal share "        \
  "loses connections to clients that have fewer; among equals the connection that has "            \
  "been idle for longest is closed. 0: as many as fit in a quarter of the memory that is "         \
  "available to the process at start, at most 4096.")                                              \
X(per_client_connections, UINT, "0",             0,          1000000,          "connections",      \
  "Most connections of one address (IPv6: of one /64 network); further ones get 429 and "          \
  "are closed at once. Does not apply to Unix sockets and --trusted-proxies. 0: no limit.")        \
X(per_client_requests, UINT,   "0",              0,          1000000,          "requests",         \
  "Most requests of one client at a time, for tensors and pages except /livez and "                \
  "/readyz; further ones get 429. A client is a token's name, else the subject of a "              \
  "certificate, else an address. 0: no limit.")                                                    \
X(per_client_bytes_per_s, SIZE, "0",             0,          SIZE_TIB,         "bytes/s",          \
  "Bytes per second of bodies that one client may send, on average; a client that is "             \
  "ahead gets 429 before the next body. 0: no limit.")                                             \
X(per_client_memory,   SIZE,   "0",              0,          64 * SIZE_TIB,    "bytes",            \
  "Memory that the requests of one client may use together; beyond it they get 429, and a "        \
  "request that alone needs more gets 413. 0: no limit but its share of --memory-budget.")         \
X(trusted_proxies,     LIST,   "",               0,          16,               "network",          \
  "Proxies whose X-Forwarded-For is used as the address of the client: 10.0.0.0/8, "               \
  "fd00::/8, 192.0.2.1, or unix for all Unix sockets. Several: with commas, or the flag "          \
  "repeated.")                                                                                     \
X(cors_origins,        LIST,   "",               0,          16,               "origin",           \
  "Origins whose pages browsers let call this service: scheme://host[:port], as browsers "         \
  "send it, such as https://app.example; or only * for every page, so that any site that "         \
  "a user of this network visits can call it. Several: with commas, or the flag repeated.")        \
X(allow_client_shm,    BOOL,   "false",          0,          1,                "true|false",       \
  "Let clients on this machine pass tensors in POSIX shared memory (v2 protocol).")                \
X(shm_zero_copy,       BOOL,   "false",          0,          1,                "true|false",       \
  "Work in clients' shared memory directly instead of copying it: faster, for clients "            \
  "that do not change it at the same time (needs --allow-client-shm).")                            \
X(shm_key_prefix,      TEXT,   "",               0,          200,              "text",             \
  "Names of shared memory objects that clients may register must begin with this.")                \
GROUP("Limits on requests")                                                                        \
X(max_body_bytes,      SIZE,   "4GiB",           1,          64 * SIZE_TIB,    "bytes",            \
  "Longest request body; a longer one gets 413.")                                                  \
X(max_header_bytes,    SIZE,   "16KiB",          4096,       16 * SIZE_MIB,    "bytes",            \
  "Longest request line and headers of one request together; also the smallest buffer of "         \
  "a connection.")                                                                                 \
X(max_rank,            UINT,   "64",             1,          LIMIT_RANK,       "dimensions",       \
  "Most dimensions of a tensor.")                                                                  \
X(memory_budget,       SIZE,   "0",              0,          64 * SIZE_TIB,    "bytes",            \
  "Memory for the tensors and texts of all requests together; beyond it large requests "           \
  "wait, and small ones get 503. 0: half of the memory that is available to the process "          \
  "at start.")                                                                                     \
X(queue_depth,         UINT,   "1024",           1,          1000000,          "requests",         \
  "Most requests that may wait for a device, and most large ones that may wait to begin; "         \
  "further ones get 503 before their bodies are read, unless their client has less than "          \
  "its share of them.")                                                                            \
X(inline_json_bytes,   SIZE,   "128KiB",         0,          SIZE_GIB,         "bytes",            \
  "JSON texts up to this size are parsed and printed on the HTTP thread, longer ones in "          \
  "the work pool.")                                                                                \
GROUP("Deadlines")                                                                                 \
X(header_timeout_ms,   UINT,   "10000",          1,          86400000,         "ms",               \
  "Time from the first byte of a request to the end of its headers.")                              \
X(body_timeout_ms,     UINT,   "600000",         1,          86400000,         "ms",               \
  "Time from the end of the headers to the end of the body.")                                      \
X(min_upload_rate,     SIZE,   "16KiB",          0,          SIZE_GIB,         "bytes/s",          \
  "A connection is closed if a body arrives more slowly than this, after ten seconds of "          \
  "grace, or if an answer is read more slowly, after the time that an idle connection "            \
  "has. 0: no minimum.")                                                                           \
X(answer_timeout_ms,   UINT,   "600000",         1,          86400000,         "ms",               \
  "Time from the first to the last byte of an answer; the connection of a client that "            \
  "takes longer to read is closed.")                                                               \
X(idle_timeout_s,      UINT,   "75",             1,          86400,            "s",                \
  "A connection is closed after this time without a request, or without a byte of a body "         \
  "or an answer in progress; clients expect more than 60.")                                        \
X(request_timeout_ms,  UINT,   "3600000",        0,          86400000,         "ms",               \
  "Deadline of each request, from its first byte on, unless the client's own "                     \
  "(X-Request-Timeout-Ms) is earlier. A request gets 504 if it still arrives at that "             \
  "time, waits to begin, for a device or for a work thread, or if its text is being "              \
  "converted. 0: none.")                                                                           \
X(device_timeout_ms,   UINT,   "60000",          10,         86400000,         "ms",               \
  "A device counts as hung if a batch of 1 GiB or less takes longer than this; larger "            \
  "batches get more time in proportion. Loading a kernel may take as long; listing and "           \
  "opening devices, and building a kernel, ten times as long.")                                    \
X(drain_timeout_s,     UINT,   "30",             0,          86400,            "s",                \
  "On SIGTERM: time in which requests in progress may finish.")                                    \
X(drain_delay_ms,      UINT,   "5000",           0,          600000,           "ms",               \
  "On SIGTERM: time in which all requests are still served, with /readyz at 503, so that "         \
  "a load balancer can choose another server. Not on SIGINT, nor if no client has been "           \
  "connected for half a minute.")                                                                  \
GROUP("Devices")                                                                                   \
X(devices,             TEXT,   "all",            1,          4096,             "list",             \
  "OpenCL devices to use: all, cpu, gpu, or a comma-separated list of numbers and parts "          \
  "of names (tallyd --list-devices shows them). The processor is used through Tally's own "        \
  "driver, or through another one that is named here, which has one general, far slower "          \
  "kernel for all layouts. With cpu alone no other driver is asked for its devices.")              \
X(gpu_lookback,        CHOICE, "auto",           0,          0,                "auto|on|off",      \
  "Scan long lines on GPUs in one pass. auto: if a trial at the start gives right sums and is "    \
  "faster; on: without a trial; off: always in two passes.")                                       \
X(batch_max_requests,  UINT,   "256",            1,          4096,             "requests",         \
  "Most requests in one launch.")                                                                  \
X(batch_max_bytes,     SIZE,   "16MiB",          1,          SIZE_TIB,         "bytes",            \
  "Most tensor bytes in one launch of several requests.")                                          \
X(batch_delay_us,      UINT,   "0",              0,          1000000,          "us",               \
  "Time for which an idle device waits for more requests before it runs a batch that is "          \
  "not full; shorter if a deadline is near.")                                                      \
X(slice_bytes,         SIZE,   "4MiB",           0,          SIZE_TIB,         "bytes",            \
  "A tensor of at least twice this size is scanned in slices of at least this size while "         \
  "its body still arrives, and a tensor of at least eight times this size also when it is "        \
  "complete, about 5 ms at a time, so that other requests run between the slices; only if "        \
  "its layout and the axis allow it. In a layout that is not contiguous a line counts at "         \
  "least 128 bytes. 0: never.")                                                                    \
X(cpus,                UINT,   "0",              0,          256,              "cores",            \
  "Cores that the service counts on: threads of the work pool, of Tally's own OpenCL driver and of "  \
  "PoCL's devices (unless POCL_MAX_PTHREAD_COUNT or POCL_CPU_MAX_CU_COUNT says otherwise). 0: what "  \
  "the process's affinity "                                                                         \
  "and the quotas of its control groups leave it, rounded up, at most 256.")                       \
X(codec_threads,       UINT,   "0",              0,          256,              "threads",          \
  "Threads of the work pool: they parse and print long JSON texts, decompress bodies and "         \
  "compress answers. 0: as --cpus, at most 64.")                                                   \
GROUP("Start")                                                                                     \
X(allow_unknown_env,   BOOL,   "false",          0,          1,                "true|false",       \
  "Start even if the environment has a variable TALLY_... that neither tallyd nor a "              \
  "program that belongs to it knows. By default tallyd refuses to start with such a "              \
  "variable, which may be misspelled.")                                                            \
GROUP("Log")                                                                                       \
X(log_format,          CHOICE, "text",           0,          0,                "text|json",        \
  "Form of the lines on standard error.")                                                          \
X(log_level,           CHOICE, "info",           0,          0,                "error|warn|info|debug", \
  "Lines of a less important level than this are left out.")                                       \
X(log_requests,        BOOL,   "true",           0,          1,                "true|false",       \
  "Write a line per request, at level info; for an answered probe (/livez, /readyz, "              \
  "/v2/health/live, /v2/health/ready, --probe-listen) at level debug.")                            \
X(log_bytes_per_s,     SIZE,   "512KiB",         0,          SIZE_TIB,         "bytes/s",          \
  "Bytes per second of the lines that clients cause: a client alone may use half of them, "        \
  "two clients a third each, and so on. Further lines are left out, and counted in a line "        \
  "for each client. 0: no limit.")                                                                 \
GROUP("Traces")                                                                                    \
X(otlp_endpoint,       TEXT,   "",               0,          4096,             "url",              \
  "Send OpenTelemetry spans of requests to this address, as OTLP/JSON over plain HTTP: "           \
  "http://localhost:4318; the default path is /v1/traces. Spans are dropped rather than "          \
  "delaying requests.")                                                                            \
X(otlp_rate,           UINT,   "100",            0,          10000000,         "traces/s",         \
  "Most traces per second that begin here, for requests with tensors and without a "               \
  "traceparent. Requests that a caller has sampled are always sent, requests that it has "         \
  "not sampled never. 0: none begin here.")
/* clang-format on */

#endif
