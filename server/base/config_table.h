/* The table of all settings of the operator, one row each. A row defines the field of struct
 * config, the flag, the environment variable, the texts of --help, tallyd(8) and
 * deploy/tallyd.env.example, and the checks.
 *
 *   field      name in struct config; the flag is --field with dashes, the variable is
 *              TALLY_FIELD
 *   type       UINT: a whole number. SIZE: a byte count (proto/byte_size.h). BOOL. TEXT.
 *              CHOICE: one of the words in `unit`, stored as its position. LIST: several texts;
 *              the flag is repeated, or commas separate the texts
 *   default    text of the value, as on the command line
 *   min, max   bounds of the value (UINT, SIZE), of the length (TEXT), of the number of entries
 *              (LIST)
 *   unit       unit of the value for the help; for a CHOICE, its words */
#ifndef TALLY_SERVER_CONFIG_TABLE_H
#define TALLY_SERVER_CONFIG_TABLE_H

#include "proto/byte_size.h"

/* clang-format off */
/*      field               type    default           min         max               unit
 *      help */
#define CONFIG_TABLE(GROUP, X)                                                                     \
GROUP("Network")                                                                                   \
X(listen,              LIST,   "127.0.0.1:8000", 1,          16,               "address",          \
  "Addresses to listen on: ADDR:PORT, [V6ADDR]:PORT or unix:/path. For several addresses, repeat " \
  "the flag or separate them by commas.")                                                          \
X(probe_listen,        LIST,   "",               0,          4,                "address",          \
  "Addresses for health probes, in the form of --listen. The server answers only /livez and "      \
  "/readyz there, in plain HTTP, and the connections do not count towards --max-connections. "     \
  "The addresses are for the supervisor of this process; clients should not reach them.")          \
X(socket_mode,         TEXT,   "auto",           1,          8,                "mode",             \
  "Permissions of the Unix sockets of --listen, in octal; a client needs write permission "        \
  "to connect. auto: 0600, or 0660 with --socket-group. Sockets that systemd passes have "         \
  "the permissions of their unit.")                                                                \
X(socket_group,        TEXT,   "",               0,          64,               "group",            \
  "Group of the Unix sockets of --listen, by name or number, for example the group of a "          \
  "proxy. tallyd must be a member of the group, or root.")                                         \
X(tls_cert,            TEXT,   "",               0,          4096,             "file",             \
  "Certificate, in PEM, followed by the intermediate certificates. With a certificate, every "     \
  "TCP address serves HTTPS (TLS 1.2 and 1.3); Unix sockets still serve plain HTTP. Changes "      \
  "of this file, of --tls-key and of --tls-client-ca are loaded without a restart.")               \
X(tls_key,             TEXT,   "",               0,          4096,             "file",             \
  "Private key of --tls-cert, in PEM, without a password.")                                        \
X(tls_client_ca,       TEXT,   "",               0,          4096,             "file",             \
  "Certificate authorities, in PEM. A client on a TCP address then needs a certificate from "      \
  "one of them.")                                                                                  \
X(token_file,          TEXT,   "",               0,          4096,             "file",             \
  "File of tokens. Every route except /livez and /readyz then requires one of them. A line is "    \
  "name:sha256-hex[:scopes], as `tally token new NAME` prints it; the scopes are infer, "          \
  "metrics and admin, by default infer. Changes of the file are loaded without a restart.")        \
X(http_loops,          UINT,   "0",              0,          64,               "threads",          \
  "Number of HTTP threads, among which connections are distributed. 0: as many as --cpus, at "     \
  "most four.")                                                                                    \
X(base_path,           TEXT,   "",               0,          256,              "path",             \
  "Prefix of every route, for example /tally, for a proxy that forwards paths with a prefix.")     \
X(console,             BOOL,   "true",           0,          1,                "true|false",       \
  "Send the console to browsers that request /. The console is a page in which users try and "     \
  "watch the service.")                                                                            \
X(max_connections,     UINT,   "0",              0,          1000000,          "connections",      \
  "Maximum number of open connections. When all are in use, a client that has more than an "       \
  "equal share loses connections to clients that have fewer; among equals the connection that "    \
  "has been idle for longest is closed. 0: as many as fit in a quarter of the memory that is "     \
  "available to the process at start, at most 4096.")                                              \
X(per_client_connections, UINT, "0",             0,          1000000,          "connections",      \
  "Maximum number of connections of one address (IPv6: of one /64 network); further ones get "     \
  "429 and are closed at once. The limit does not apply to Unix sockets and --trusted-proxies. "   \
  "0: no limit.")                                                                                  \
X(per_client_requests, UINT,   "0",              0,          1000000,          "requests",         \
  "Maximum number of requests of one client at a time, for tensors and pages except /livez "       \
  "and /readyz; further ones get 429. A client is a token's name, else the subject of a "          \
  "certificate, else an address. 0: no limit.")                                                    \
X(per_client_bytes_per_s, SIZE, "0",             0,          SIZE_TIB,         "bytes/s",          \
  "Average number of body bytes per second that one client may send. A client that has sent "      \
  "more gets 429 before its next body. 0: no limit.")                                              \
X(per_client_memory,   SIZE,   "0",              0,          64 * SIZE_TIB,    "bytes",            \
  "Memory that the requests of one client may use together; beyond it they get 429, and a "        \
  "request that alone needs more gets 413. 0: only --memory-budget limits the memory.")            \
X(trusted_proxies,     LIST,   "",               0,          16,               "network",          \
  "Proxies whose X-Forwarded-For is used as the address of the client: 10.0.0.0/8, "               \
  "fd00::/8, 192.0.2.1, or unix for all Unix sockets. For several proxies, repeat the flag or "    \
  "separate them by commas.")                                                                      \
X(cors_origins,        LIST,   "",               0,          16,               "origin",           \
  "Origins of web pages that may call this service from a browser: scheme://host[:port], as "      \
  "browsers send it, such as https://app.example. The single entry * allows every page, so any "   \
  "site that a user of this network visits can call the service. For several origins, repeat the " \
  "flag or separate them by commas.")                                                              \
X(allow_client_shm,    BOOL,   "false",          0,          1,                "true|false",       \
  "Let clients on this machine pass tensors in POSIX shared memory (v2 protocol).")                \
X(shm_zero_copy,       BOOL,   "false",          0,          1,                "true|false",       \
  "Compute directly in clients' shared memory instead of copying it. This is faster, but a "       \
  "client must not change the memory during a request. Needs --allow-client-shm.")                 \
X(shm_key_prefix,      TEXT,   "",               0,          200,              "text",             \
  "Clients may register only shared memory objects whose names begin with this text.")             \
GROUP("Limits on requests")                                                                        \
X(max_body_bytes,      SIZE,   "4GiB",           1,          64 * SIZE_TIB,    "bytes",            \
  "Longest request body; a longer one gets 413.")                                                  \
X(max_header_bytes,    SIZE,   "16KiB",          4096,       16 * SIZE_MIB,    "bytes",            \
  "Longest request line and headers of one request together; also the smallest buffer of "         \
  "a connection.")                                                                                 \
X(max_rank,            UINT,   "64",             1,          LIMIT_RANK,       "dimensions",       \
  "Maximum number of dimensions of a tensor.")                                                     \
X(memory_budget,       SIZE,   "0",              0,          64 * SIZE_TIB,    "bytes",            \
  "Memory for the tensors and texts of all requests together. When it is used up, large "          \
  "requests wait, and small ones get 503. 0: half of the memory that is available to the "         \
  "process at start.")                                                                             \
X(queue_depth,         UINT,   "1024",           1,          1000000,          "requests",         \
  "Maximum number of requests that wait for a device, and of large requests that wait to begin. "  \
  "Further requests get 503 before their bodies are read, unless their client has fewer waiting "  \
  "requests than its share.")                                                                      \
X(inline_json_bytes,   SIZE,   "128KiB",         0,          SIZE_GIB,         "bytes",            \
  "JSON texts up to this size are parsed and printed by the HTTP thread. Longer texts are "        \
  "handed to the work pool.")                                                                      \
GROUP("Deadlines")                                                                                 \
X(header_timeout_ms,   UINT,   "10000",          1,          86400000,         "ms",               \
  "Time from the first byte of a request to the end of its headers.")                              \
X(body_timeout_ms,     UINT,   "600000",         1,          86400000,         "ms",               \
  "Time from the end of the headers to the end of the body.")                                      \
X(min_upload_rate,     SIZE,   "16KiB",          0,          SIZE_GIB,         "bytes/s",          \
  "A connection is closed if a body arrives more slowly than this, or if the client reads an "     \
  "answer more slowly. The rate of a body is checked after ten seconds. An answer may take "       \
  "--idle-timeout-s longer than this rate allows. 0: no minimum.")                                 \
X(answer_timeout_ms,   UINT,   "600000",         1,          86400000,         "ms",               \
  "Time from the first to the last byte of an answer; the connection of a client that "            \
  "takes longer to read is closed.")                                                               \
X(idle_timeout_s,      UINT,   "75",             1,          86400,            "s",                \
  "A connection is closed after this time without a request, or, during a body or an answer, "     \
  "without a byte. Clients expect more than 60 s.")                                                \
X(request_timeout_ms,  UINT,   "3600000",        0,          86400000,         "ms",               \
  "Deadline of each request, counted from its first byte, unless the client's own deadline "       \
  "(X-Request-Timeout-Ms) is earlier. At the deadline a request gets 504 in these states: its "    \
  "body is still arriving; it waits to begin; it waits for a device or a work thread; its "        \
  "text is being converted. 0: no deadline.")                                                      \
X(device_timeout_ms,   UINT,   "60000",          10,         86400000,         "ms",               \
  "A device counts as hung if a batch of 1 GiB or less takes longer than this; larger "            \
  "batches get more time in proportion. Closing a device has the same limit. Listing and opening "  \
  "devices, and building and measuring kernels, may take ten times as long.")                      \
X(drain_timeout_s,     UINT,   "30",             0,          86400,            "s",                \
  "On SIGTERM: time in which requests in progress may finish.")                                    \
X(drain_delay_ms,      UINT,   "5000",           0,          600000,           "ms",               \
  "On SIGTERM: time in which all requests are still served, with /readyz at 503, so that "         \
  "a load balancer can choose another server. There is no delay on SIGINT, nor if no client "      \
  "has been connected for half a minute.")                                                         \
GROUP("Devices")                                                                                   \
X(devices,             TEXT,   "all",            1,          4096,             "list",             \
  "OpenCL devices to use: all, cpu, gpu, or a comma-separated list of numbers and parts "          \
  "of names (tallyd --list-devices shows them). The processor is used through Tally's own "        \
  "driver, unless its device in another driver is named here; there one general, far slower "      \
  "kernel computes all layouts. If the list is only cpu, no other driver is called.")              \
X(gpu_lookback,        CHOICE, "auto",           0,          0,                "auto|on|off",      \
  "Scan long lines on GPUs in one pass instead of two. auto: one pass if a trial at the start "    \
  "gives right sums and is faster; on: one pass without a trial; off: two passes.")                \
X(batch_max_requests,  UINT,   "256",            1,          4096,             "requests",         \
  "Maximum number of requests in one launch.")                                                     \
X(batch_max_bytes,     SIZE,   "16MiB",          1,          SIZE_TIB,         "bytes",            \
  "Maximum number of tensor bytes in one launch of several requests.")                             \
X(batch_delay_us,      UINT,   "0",              0,          1000000,          "us",               \
  "Time for which an idle device waits for more requests before it runs a batch that is "          \
  "not full. The wait is shorter if a deadline is near.")                                          \
X(slice_bytes,         SIZE,   "4MiB",           0,          SIZE_TIB,         "bytes",            \
  "A tensor of at least twice this size is scanned in slices of at least this size while "         \
  "its body still arrives. A complete tensor of at least eight times this size is scanned in "     \
  "slices of about 5 ms, so that other requests run between the slices. Both need a layout and "   \
  "an axis that allow slices. In a layout that is not contiguous a line counts as at least 128 "   \
  "bytes. 0: no slices.")                                                                          \
X(cpus,                UINT,   "0",              0,          256,              "cores",            \
  "Number of cores to use: the number of threads of the work pool, of Tally's own OpenCL driver "  \
  "and of PoCL's devices (unless POCL_MAX_PTHREAD_COUNT or POCL_CPU_MAX_CU_COUNT is set). 0: the " \
  "number of cores that the affinity and the control groups of the process allow, rounded up, "    \
  "at most 256.")                                                                                  \
X(codec_threads,       UINT,   "0",              0,          256,              "threads",          \
  "Threads of the work pool: they parse and print long JSON texts, decompress bodies and "         \
  "compress answers. 0: as many as --cpus, at most 64.")                                           \
GROUP("Start")                                                                                     \
X(allow_unknown_env,   BOOL,   "false",          0,          1,                "true|false",       \
  "Start even if the environment has a variable TALLY_... that neither tallyd nor a "              \
  "program that belongs to it knows. By default tallyd refuses to start with such a "              \
  "variable, which may be misspelled.")                                                            \
GROUP("Log")                                                                                       \
X(log_format,          CHOICE, "text",           0,          0,                "text|json",        \
  "Format of the log lines on standard error.")                                                    \
X(log_level,           CHOICE, "info",           0,          0,                "error|warn|info|debug", \
  "Least important level that is logged.")                                                         \
X(log_requests,        BOOL,   "true",           0,          1,                "true|false",       \
  "Write a line for each request. Its level is info; for an answered probe (/livez, /readyz, "     \
  "/v2/health/live, /v2/health/ready, --probe-listen) its level is debug.")                        \
X(log_bytes_per_s,     SIZE,   "512KiB",         0,          SIZE_TIB,         "bytes/s",          \
  "Limit of the log lines that clients cause, in bytes per second. A single client may use half "  \
  "of the limit, two clients a third each, and so on. Further lines are left out; one line for "   \
  "each client reports their number. 0: no limit.")                                                \
GROUP("Traces")                                                                                    \
X(otlp_endpoint,       TEXT,   "",               0,          4096,             "url",              \
  "Send OpenTelemetry spans of requests to this address, as OTLP/JSON over plain HTTP, for "       \
  "example http://localhost:4318; the default path is /v1/traces. If the collector is too slow, "  \
  "spans are dropped; no request waits for it.")                                                   \
X(otlp_rate,           UINT,   "100",            0,          10000000,         "traces/s",         \
  "Maximum number of traces per second that this server begins, for requests that have a "         \
  "tensor and no traceparent. The spans of a request with a traceparent are sent if the "          \
  "caller has sampled the request, else never. 0: this server begins no trace.")
/* clang-format on */

#endif
