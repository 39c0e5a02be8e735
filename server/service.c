/* Creates the modules, runs the main thread's ticks until a signal and a drain, and destroys
 * the modules; see service.h. */
#include "server/service.h"

#include "proto/byte_size.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/trace.h"
#include "server/http/http.h"
#include "server/memory/memory.h"
#include "server/memory/shm.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/device_pool.h"
#include "server/sched/line.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"
#include "server/sched/server.h"
#include "server/sched/work.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- creating and destroying the modules ---- */

enum {
    SHARED_SLAB_BYTES = 32 << 20,
    SMALL_BLOCK_BYTES = 1 << 20, /* largest block in a shared slab, headroom included */
    KEEP_SLABS_MS = 30000,
    SHM_REGIONS = 256
};

/* Create the registry of shared memory if it is switched on; a NULL registry means that it is
 * off. */
static enum status open_shm(const struct config *config, struct server *server,
                            struct error *err)
{
    const struct shm_options options = {.zero_copy = config->shm_zero_copy,
                                        .max_regions = SHM_REGIONS,
                                        .key_prefix = config->shm_key_prefix};
    if (config->shm_zero_copy && !config->allow_client_shm) {
        return error_set(
            err, STATUS_INVALID_REQUEST,
            "--shm-zero-copy says how shared memory is used, and does not allow it: "
            "add --allow-client-shm");
    }
    return config->allow_client_shm ? shm_create(&options, &server->shm, err) : STATUS_OK;
}

static enum status open_tracer(const struct config *config, struct server *server,
                               struct error *err)
{
    const struct tracer_options options = {.endpoint = config->otlp_endpoint,
                                           .rate = config->otlp_rate,
                                           .log = server->log,
                                           .metrics = server->metrics};
    return config->otlp_endpoint[0] == '\0' ? STATUS_OK
                                            : tracer_open(&options, &server->tracer, err);
}

/* Warn if the budget is too small for most requests: the limit of a control group is almost
 * reached, or the option lacks a unit. */
static void warn_of_little_memory(const struct config *config, struct log *log)
{
    if (config->memory_budget < SHARED_SLAB_BYTES) {
        char text[32];
        byte_size_text(config->memory_budget, text, sizeof text);
        log_message(log, LOG_WARN,
                    "all requests together may have no more than %s of memory: larger ones are "
                    "refused (--memory-budget, by default half of what was available)",
                    text);
    }
}

static enum status build_server(struct config *config, struct server *server,
                                struct http **http, struct error *err)
{
    const struct log_options log = {.fd = STDERR_FILENO,
                                    .json = config->log_format == 1,
                                    .level = (enum log_level)config->log_level,
                                    .requests = config->log_requests,
                                    .bytes_per_s = config->log_bytes_per_s};
    const struct memory_options memory = {.budget_bytes = config->memory_budget,
                                          .small_slab_bytes = SHARED_SLAB_BYTES,
                                          .small_block_bytes =
                                              SMALL_BLOCK_BYTES - MEMORY_HEADROOM,
                                          .keep_ms = KEEP_SLABS_MS};
    if (log_open(&log, &server->log, err) != STATUS_OK ||
        metrics_create(&server->metrics, err) != STATUS_OK ||
        open_tracer(config, server, err) != STATUS_OK ||
        memory_create(&memory, &server->memory, err) != STATUS_OK ||
        memory_prepare(server->memory, err) != STATUS_OK ||
        clients_create(&server->clients, err) != STATUS_OK ||
        admission_create(server->memory, (size_t)config->queue_depth, &server->admission,
                         err) != STATUS_OK ||
        open_shm(config, server, err) != STATUS_OK ||
        queue_create((size_t)config->queue_depth, &server->queue, err) != STATUS_OK ||
        work_pool_create((size_t)config->codec_threads, &server->work, err) != STATUS_OK) {
        return err->status;
    }
    warn_of_little_memory(config, server->log);
    config->max_connections = http_connections_that_fit(server);
    const struct device_pool_parts parts = {.config = config,
                                            .log = server->log,
                                            .metrics = server->metrics,
                                            .memory = server->memory,
                                            .queue = server->queue};
    if (device_pool_create(&parts, &device_driver_opencl, &server->devices, err) != STATUS_OK ||
        http_start(server, http, err) != STATUS_OK) {
        return err->status;
    }
    return device_pool_start(server->devices, err);
}

/* Stop the threads and destroy the modules. If threads cannot be stopped (a hung device), or
 * the code is EXIT_CODE_FAILED, exit the process instead: threads may still use the modules. */
static void destroy_server(struct server *server, struct http *http, int code)
{
    if (server->queue != NULL) {
        queue_close(server->queue);
    }
    if (code != EXIT_CODE_FAILED) {
        http_halt(http); /* connections may be open: some exits skip the drain */
    }
    bool stopped = code != EXIT_CODE_FAILED && device_pool_stop(server->devices);
    if (!stopped) {
        (void)log_finish(server->log); /* running threads may still write to the log */
        _exit(code);
    }
    /* before the devices, because work threads also scan small tensors */
    work_pool_destroy(server->work);
    device_pool_destroy(server->devices);
    admission_close(server->admission);
    http_stop(http);
    queue_destroy(server->queue);
    shm_destroy(server->shm);
    memory_destroy(server->memory);
    admission_destroy(server->admission);
    clients_destroy(server->clients);
    tracer_close(server->tracer);
    metrics_destroy(server->metrics);
    log_close(server->log);
}

static int exit_code_of(enum status status)
{
    return status == STATUS_NO_DEVICE   ? EXIT_CODE_NO_DEVICE
           : status_http(status) == 400 ? EXIT_CODE_USAGE
                                        : EXIT_CODE_FAILED;
}

/* ---- serving ---- */

#define TICK_NS       (100 * NS_PER_MS)
#define SHORT_TICK_NS (5 * NS_PER_MS) /* while the service starts or stops */
#define TRIM_EVERY_NS NS_PER_S
#define HEAP_NS       (30 * NS_PER_S)
#define TRAFFIC_NS    (30 * NS_PER_S) /* longer than the interval of balancers' health checks */
#define STOPPED_NS    NS_PER_S /* a longer interval between ticks: the process was stopped */
/* longer than the time in which idle connections are closed (http/deadlines.c) */
#define QUIET_NS NS_PER_S

enum {
    CONTINUE = -1, /* no exit code */
    /* number of connections whose buffers justify the time of a malloc_trim() */
    MANY_CONNECTIONS = 256
};

/* State of the main thread. */
struct run {
    struct server *server;
    struct http *http;
    bool was_ready;       /* a device has been ready */
    uint64_t tick_ns;     /* time of the last tick, 0: none yet */
    uint64_t trim_ns;     /* time of the next memory_trim() */
    uint64_t close_ns;    /* time when DRAINING becomes CLOSING */
    uint64_t give_up_ns;  /* time when the drain fails */
    uint64_t deadline_ns; /* earliest deadline of waiting requests, 0: none */
    uint64_t traffic_ns;  /* time when a connection was last open, 0: never */
    uint64_t accepted;    /* number of connections accepted so far */
    uint64_t heap_ns;     /* time of the next check in trim_heap() */
    size_t most;          /* maximum number of open connections since the last check */
};

static void stop_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
}

void service_block_signals(void)
{
    sigset_t set;
    stop_signals(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* the write to the log fails instead */
}

static void enter_phase(struct run *run, enum server_phase phase)
{
    atomic_store_explicit(&run->server->phase, phase, memory_order_relaxed);
}

static uint64_t wait_ns(const struct run *run, uint64_t now_ns)
{
    uint64_t wait = server_phase(run->server) == SERVER_READY ? TICK_NS : SHORT_TICK_NS;
    if (run->deadline_ns > now_ns && run->deadline_ns - now_ns < wait) {
        wait = run->deadline_ns - now_ns;
    }
    return wait;
}

/* Return the buffers that a burst of connections has freed to the system; glibc keeps them
 * otherwise. malloc_trim() walks through the whole heap, so it is called rarely, and only after
 * many connections have closed. */
static void trim_heap(struct run *run, size_t connections, uint64_t now_ns)
{
    run->most = larger_of(run->most, connections);
    if (now_ns >= run->heap_ns) {
        if (run->most >= connections + MANY_CONNECTIONS) {
            (void)malloc_trim(0);
        }
        run->most = connections;
        run->heap_ns = now_ns + HEAP_NS;
    }
}

/* The work of every tick, in every phase. */
static void do_every_tick(struct run *run, uint64_t now_ns)
{
    uint64_t span_ns = clock_span_ns(run->tick_ns, now_ns);
    /* Time in which the process was stopped, for example by SIGSTOP or a debugger. */
    uint64_t lost_ns = span_ns > STOPPED_NS ? span_ns - STOPPED_NS : 0;
    run->tick_ns = now_ns;
    run->deadline_ns = deadline_earlier(line_sweep(queue_line(run->server->queue), now_ns),
                                        line_sweep(work_line(run->server->work), now_ns));
    run->deadline_ns =
        deadline_earlier(run->deadline_ns, admission_sweep(run->server->admission, now_ns));
    device_pool_tick(run->server->devices, now_ns, lost_ns);
    if (now_ns >= run->trim_ns) {
        memory_trim(run->server->memory, now_ns);
        run->trim_ns = now_ns + TRIM_EVERY_NS;
    }
    http_tick(run->http, now_ns);
    const size_t connections = http_connections(run->http);
    trim_heap(run, connections, now_ns);
    const uint64_t accepted =
        metrics_read(&run->server->metrics->counters[METRICS_COUNTER_CONNECTIONS]);
    if (accepted != run->accepted || connections > 0) {
        run->accepted = accepted;
        run->traffic_ns = now_ns;
    }
}

/* Update the phase, STARTING or READY, from the health of the devices. Returns an exit code or
 * CONTINUE. */
static int follow_devices(struct run *run)
{
    enum device_pool_health health = device_pool_health(run->server->devices);
    struct log *log = run->server->log;
    if (server_phase(run->server) == SERVER_STARTING && health == DEVICE_POOL_USABLE) {
        enter_phase(run, SERVER_READY);
        run->was_ready = true;
        log_message(log, LOG_INFO, "ready");
    } else if (server_phase(run->server) == SERVER_READY && health == DEVICE_POOL_BROKEN) {
        enter_phase(run, SERVER_STARTING);
        log_message(log, LOG_ERROR, "not ready: no device is in working order");
    } else if (!run->was_ready && health == DEVICE_POOL_BROKEN) {
        log_message(log, LOG_ERROR, "none of the OpenCL devices can be used; giving up");
        return EXIT_CODE_NO_DEVICE;
    }
    return CONTINUE;
}

/* Returns true if a load balancer may be sending clients to this server. */
static bool is_balanced(const struct run *run, uint64_t now_ns)
{
    return run->was_ready && run->traffic_ns != 0 &&
           clock_span_ns(run->traffic_ns, now_ns) < TRAFFIC_NS;
}

static void begin_drain(struct run *run, int signal_number, uint64_t now_ns)
{
    const struct config *config = run->server->config;
    bool waits = signal_number == SIGTERM && is_balanced(run, now_ns);
    uint64_t delay_ms = waits ? config->drain_delay_ms : 0;
    enter_phase(run, SERVER_DRAINING);
    run->close_ns = now_ns + delay_ms * NS_PER_MS;
    if (delay_ms > 0) {
        log_message(run->server->log, LOG_INFO,
                    "stopping: not ready from now on, closing in %llu ms (--drain-delay-ms)",
                    (unsigned long long)delay_ms);
    }
}

static void begin_closing(struct run *run, uint64_t now_ns)
{
    uint64_t timeout_s = run->server->config->drain_timeout_s;
    enter_phase(run, SERVER_CLOSING);
    run->give_up_ns = now_ns + timeout_s * NS_PER_S + QUIET_NS;
    http_drain(run->http);
    log_message(run->server->log, LOG_INFO,
                "stopping: %zu connections to finish, for up to %llu s",
                http_connections(run->http), (unsigned long long)timeout_s);
}

/* Advance the phase from DRAINING or CLOSING. Returns an exit code or CONTINUE. */
static int follow_drain(struct run *run, uint64_t now_ns)
{
    if (server_phase(run->server) == SERVER_DRAINING) {
        if (now_ns < run->close_ns) {
            return CONTINUE;
        }
        begin_closing(run, now_ns);
    }
    if (http_drained(run->http)) {
        return EXIT_CODE_OK;
    }
    size_t connections = http_connections(run->http);
    if (connections > 0 && now_ns >= run->give_up_ns) {
        log_message(run->server->log, LOG_ERROR,
                    "%zu connections did not finish in time (--drain-timeout-s)", connections);
        return EXIT_CODE_FAILED;
    }
    return CONTINUE;
}

/* Serve until a signal and drain. Returns the exit code. */
static int serve_until_signal(struct server *server, struct http *http)
{
    struct run run = {.server = server, .http = http};
    sigset_t signals;
    stop_signals(&signals);
    int code = CONTINUE;
    while (code == CONTINUE) {
        struct timespec wait = clock_timespec(wait_ns(&run, clock_now_ns()));
        int caught = sigtimedwait(&signals, NULL, &wait);
        uint64_t now_ns = clock_now_ns();
        do_every_tick(&run, now_ns);
        if (caught > 0 && server_phase(server) >= SERVER_DRAINING) {
            log_message(server->log, LOG_WARN, "second signal: stopping at once");
            code = EXIT_CODE_FAILED;
        } else if (caught > 0) {
            begin_drain(&run, caught, now_ns);
        }
        if (code == CONTINUE) {
            code = server_phase(server) < SERVER_DRAINING ? follow_devices(&run)
                                                          : follow_drain(&run, now_ns);
        }
    }
    enter_phase(&run, SERVER_STOPPING);
    return code;
}

int service_run(struct config *config, struct error *err)
{
    struct server server = {.config = config, .phase = SERVER_STARTING};
    struct http *http = NULL;
    service_block_signals();
    enum status status = build_server(config, &server, &http, err);
    int code = status == STATUS_OK ? serve_until_signal(&server, http) : exit_code_of(status);
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "tallyd: %s\n", err->detail);
    }
    destroy_server(&server, http, code);
    return code;
}
