/* Devices with prescribed behaviour, for tests of the pool and of code that displays it. */
#ifndef TALLY_TESTS_FAKE_DRIVER_H
#define TALLY_TESTS_FAKE_DRIVER_H

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/memory/memory.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"
#include "server/sched/work.h"
#include "tests/unit/fake_request.h"

#include <string.h>

enum {
    FAKE_DEVICES = 4,
    FAKE_LARGE = 150000
};

enum fake_mode {
    FAKE_WORKS,
    FAKE_FAILS_INTACT,     /* run() returns DEVICE_ERROR with inputs untouched */
    FAKE_FAILS,            /* run() returns DEVICE_ERROR with inputs overwritten */
    FAKE_SHORT_OF_MEMORY,  /* run() returns OUT_OF_MEMORY for more than one job */
    FAKE_HANGS,            /* run() blocks until the mode changes */
    FAKE_CLOSED,           /* open() returns DEVICE_ERROR */
    FAKE_UNBUILDABLE,      /* prepare() returns DEVICE_ERROR for one type */
    FAKE_OPEN_HANGS,       /* open() blocks until the mode changes */
    FAKE_FIRST_OPEN_HANGS, /* the first open() blocks until the mode changes */
    FAKE_PREPARE_HANGS,    /* prepare() blocks until the mode changes */
    FAKE_SINGLE_HANGS,     /* run() with one job blocks; OUT_OF_MEMORY for more */
    FAKE_LARGE_HANGS,      /* run() of more than FAKE_LARGE elements blocks */
    FAKE_SPOILS,           /* as FAKE_SHORT_OF_MEMORY, with inputs overwritten */
    FAKE_UNMEASURABLE,     /* measure() returns DEVICE_ERROR */
    FAKE_MEASURE_HANGS     /* measure() blocks until the mode changes */
};

struct scan_device {
    size_t number;
};

/* The prescribed behaviour, and counts of calls. */
static struct {
    size_t count; /* number of devices, set before use */
    _Atomic int mode[FAKE_DEVICES];
    atomic_uint runs[FAKE_DEVICES];
    atomic_uint opens[FAKE_DEVICES];
    atomic_uint lists;                     /* number of list() calls that returned */
    atomic_bool list_hangs;                /* list() blocks until this is false */
    atomic_bool close_hangs[FAKE_DEVICES]; /* close() blocks until this is false */
    atomic_uint prepared;                  /* prepared element types, summed over all devices */
    atomic_uint described;                 /* number of devices that became ready */
    uint64_t small_ns[FAKE_DEVICES];       /* measured time of a scan below FAKE_LARGE */
    uint64_t large_ns[FAKE_DEVICES];       /* measured time of a longer scan */
    atomic_uint measured[FAKE_DEVICES];    /* number of measurements */
    bool built_in;                         /* the first device belongs to Tally's own driver */
    bool transfers;                        /* the second device needs transfers */
    bool every_byte;          /* add 1 to every byte of a job, not only to its first one */
    atomic_uint out_of_order; /* slices that did not follow their predecessor */
    const struct device_driver *driver; /* driver for fake_server_init(); NULL: fake_driver */
} fake;

static inline void fake_reset(size_t count)
{
    fake.count = count;
    for (size_t i = 0; i < FAKE_DEVICES; i++) {
        atomic_store(&fake.mode[i], FAKE_WORKS);
        atomic_store(&fake.runs[i], 0);
        atomic_store(&fake.opens[i], 0);
        atomic_store(&fake.close_hangs[i], false);
        atomic_store(&fake.measured[i], 0);
        fake.small_ns[i] = 10000;
        fake.large_ns[i] = 1000000;
    }
    atomic_store(&fake.lists, 0);
    atomic_store(&fake.list_hangs, false);
    atomic_store(&fake.prepared, 0);
    atomic_store(&fake.described, 0);
    fake.built_in = false;
    fake.transfers = false;
    fake.every_byte = false;
    atomic_store(&fake.out_of_order, 0);
}

static inline void fake_pause(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static inline enum status fake_list(struct scan_device_info *infos, size_t room, size_t *count,
                                    struct error *err)
{
    while (atomic_load(&fake.list_hangs)) {
        fake_pause();
    }
    if (fake.count == 0) {
        return error_set(err, STATUS_NO_DEVICE, "there is no OpenCL platform");
    }
    for (size_t i = 0; i < fake.count && i < room; i++) {
        infos[i] =
            (struct scan_device_info){.kind = i % 2 == 0 ? SCAN_DEVICE_CPU : SCAN_DEVICE_GPU,
                                      .built_in = fake.built_in && i == 0,
                                      .host_memory = !fake.transfers || i != 1};
        (void)snprintf(infos[i].name, sizeof infos[i].name, "Fake \"%zu\"", i);
        (void)snprintf(infos[i].platform, sizeof infos[i].platform, "Fakes");
    }
    *count = fake.count < room ? fake.count : room;
    atomic_fetch_add(&fake.lists, 1);
    return STATUS_OK;
}

static inline enum status fake_open(size_t number, enum scan_lookback lookback,
                                    struct scan_device **device, struct error *err)
{
    (void)lookback;
    const bool first = atomic_fetch_add(&fake.opens[number], 1) == 0;
    while (atomic_load(&fake.mode[number]) == FAKE_OPEN_HANGS ||
           (first && atomic_load(&fake.mode[number]) == FAKE_FIRST_OPEN_HANGS)) {
        fake_pause();
    }
    if (atomic_load(&fake.mode[number]) == FAKE_CLOSED) {
        return error_set(err, STATUS_DEVICE_ERROR, "it does not open");
    }
    *device = calloc(1, sizeof **device);
    (*device)->number = number;
    return STATUS_OK;
}

static inline void fake_close(struct scan_device *device)
{
    while (device != NULL && atomic_load(&fake.close_hangs[device->number])) {
        fake_pause();
    }
    free(device);
}

static inline enum status fake_prepare(struct scan_device *device, enum dtype dtype,
                                       struct error *err)
{
    while (atomic_load(&fake.mode[device->number]) == FAKE_PREPARE_HANGS) {
        fake_pause();
    }
    if (dtype == DTYPE_I16 && atomic_load(&fake.mode[device->number]) == FAKE_UNBUILDABLE) {
        return error_set(err, STATUS_DEVICE_ERROR, "int16: it does not build");
    }
    atomic_fetch_add(&fake.prepared, 1);
    return STATUS_OK;
}

static inline enum status fake_measure(struct scan_device *device, enum dtype dtype,
                                       uint64_t elements, uint64_t *took_ns, struct error *err)
{
    (void)dtype;
    atomic_fetch_add(&fake.measured[device->number], 1);
    while (atomic_load(&fake.mode[device->number]) == FAKE_MEASURE_HANGS) {
        fake_pause();
    }
    if (atomic_load(&fake.mode[device->number]) == FAKE_UNMEASURABLE) {
        return error_set(err, STATUS_DEVICE_ERROR, "it cannot be measured");
    }
    *took_ns =
        elements < FAKE_LARGE ? fake.small_ns[device->number] : fake.large_ns[device->number];
    return STATUS_OK;
}

/* Access the memory like a device: read the input's first byte, write the output's first
 * byte. */
static inline void fake_compute(const struct scan_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned char *in = slab_data(jobs[i].slab);
        unsigned char *out = slab_data(jobs[i].out_slab);
        out[jobs[i].out_offset] = (unsigned char)(in[jobs[i].in_offset] + 1);
        if (jobs[i].plan->elements == 0) {
            abort();
        }
    }
}

/* Compute the rest after fake_compute(). The carry of a slice stores the output position of the
 * next slice. */
static inline void fake_compute_rest(const struct scan_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct scan_plan *plan = jobs[i].plan;
        unsigned char *bytes = (unsigned char *)slab_data(jobs[i].slab) + jobs[i].out_offset;
        for (size_t k = 1; k < plan->elements * dtype_info(plan->dtype)->bytes; k++) {
            bytes[k]++;
        }
        if (jobs[i].carry != NULL) {
            uint32_t *next = jobs[i].carry; /* every carry has at least 4 bytes */
            const uint32_t begins = (uint32_t)jobs[i].out_offset;
            const size_t step = plan->axis.out_stride * dtype_info(plan->dtype)->bytes;
            atomic_fetch_add(&fake.out_of_order, jobs[i].carry_in && *next != begins);
            *next = begins + (uint32_t)(plan->axis.size * step);
        }
    }
}

static inline enum status fake_run(struct scan_device *device, const struct scan_job *jobs,
                                   size_t count, struct scan_report *report, struct error *err)
{
    _Atomic int *mode = &fake.mode[device->number];
    atomic_fetch_add(&fake.runs[device->number], 1);
    *report = (struct scan_report){.compute_ns = 5, .launches = 1};
    switch ((enum fake_mode)atomic_load(mode)) {
    case FAKE_FAILS_INTACT:
        report->inputs_intact = true;
        return error_set(err, STATUS_DEVICE_ERROR, "it caught fire");
    case FAKE_FAILS:
        return error_set(err, STATUS_DEVICE_ERROR, "it caught fire");
    case FAKE_SHORT_OF_MEMORY:
    case FAKE_SPOILS:
        report->inputs_intact = atomic_load(mode) == FAKE_SHORT_OF_MEMORY;
        if (count > 1) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "too much at once");
        }
        break;
    case FAKE_HANGS:
        while (atomic_load(mode) == FAKE_HANGS) {
            fake_compute(jobs, count); /* the device is still using the memory */
            fake_pause();
        }
        break;
    case FAKE_SINGLE_HANGS:
        report->inputs_intact = true;
        if (count > 1) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "too much at once");
        }
        while (atomic_load(mode) == FAKE_SINGLE_HANGS) {
            fake_pause();
        }
        break;
    case FAKE_LARGE_HANGS:
        while (jobs[0].plan->elements > FAKE_LARGE && atomic_load(mode) == FAKE_LARGE_HANGS) {
            fake_pause();
        }
        break;
    case FAKE_WORKS:
    case FAKE_CLOSED:
    case FAKE_UNBUILDABLE:
    case FAKE_OPEN_HANGS:
    case FAKE_FIRST_OPEN_HANGS:
    case FAKE_PREPARE_HANGS:
    case FAKE_UNMEASURABLE:
    case FAKE_MEASURE_HANGS:
        break;
    }
    fake_compute(jobs, count);
    if (fake.every_byte) {
        fake_compute_rest(jobs, count);
    }
    return STATUS_OK;
}

static inline const struct scan_device_info *fake_info(const struct scan_device *device)
{
    static const struct scan_device_info info = {.lookback = "as it likes"};
    (void)device;
    atomic_fetch_add(&fake.described, 1);
    return &info;
}

static const struct device_driver fake_driver = {.list = fake_list,
                                                 .open = fake_open,
                                                 .prepare = fake_prepare,
                                                 .measure = fake_measure,
                                                 .close = fake_close,
                                                 .run = fake_run,
                                                 .info = fake_info};

/* A whole server without HTTP. */
struct fake_server {
    struct server server;
    struct config config;
    struct completion completion;
    struct request *rest; /* taken from the completion list, not yet examined */
};

/* words: further flags, NULL at the end. Returns false if device_pool_create() failed; *err has
 * the reason. */
static inline bool fake_server_init(struct fake_server *fakes, const char *const *words,
                                    struct error *err)
{
    const char *argv[16] = {"tallyd", "--memory-budget=64MiB", "--codec-threads=1"};
    int argc = 3;
    for (; words != NULL && *words != NULL; words++) {
        argv[argc++] = *words;
    }
    *fakes = (struct fake_server){.server = {.config = &fakes->config}};
    const struct memory_options memory = {.budget_bytes = 64 << 20,
                                          .small_slab_bytes = 1 << 20,
                                          .small_block_bytes = 64 << 10,
                                          .keep_ms = 1000};
    bool made = config_parse(argc, argv, NULL, &fakes->config, err) == STATUS_OK &&
                completion_init(&fakes->completion, err) == STATUS_OK &&
                metrics_create(&fakes->server.metrics, err) == STATUS_OK &&
                memory_create(&memory, &fakes->server.memory, err) == STATUS_OK &&
                clients_create(&fakes->server.clients, err) == STATUS_OK &&
                admission_create(fakes->server.memory, 100000, &fakes->server.admission, err) ==
                    STATUS_OK &&
                queue_create(100000, &fakes->server.queue, err) == STATUS_OK &&
                work_pool_create(1, &fakes->server.work, err) == STATUS_OK;
    if (!made) {
        abort();
    }
    const struct device_driver *driver = fake.driver != NULL ? fake.driver : &fake_driver;
    const struct device_pool_parts parts = {.config = &fakes->config,
                                            .log = fakes->server.log,
                                            .metrics = fakes->server.metrics,
                                            .memory = fakes->server.memory,
                                            .queue = fakes->server.queue};
    return device_pool_create(&parts, driver, &fakes->server.devices, err) == STATUS_OK;
}

/* Returns the result of device_pool_stop(). */
static inline bool fake_server_deinit(struct fake_server *fakes)
{
    queue_close(fakes->server.queue);
    if (!device_pool_stop(fakes->server.devices)) {
        return false;
    }
    work_pool_destroy(fakes->server.work);
    device_pool_destroy(fakes->server.devices);
    queue_destroy(fakes->server.queue);
    memory_destroy(fakes->server.memory);
    admission_destroy(fakes->server.admission);
    clients_destroy(fakes->server.clients);
    metrics_destroy(fakes->server.metrics);
    completion_deinit(&fakes->completion);
    config_deinit(&fakes->config);
    return true;
}

/* Create a request with memory of its own, as the HTTP side queues it. */
static inline struct request *fake_tensor(struct fake_server *fakes, enum dtype dtype,
                                          int64_t elements)
{
    struct request *request = fake_request(&fakes->completion, dtype, elements);
    request->server = &fakes->server;
    size_t bytes = request->memory.block.bytes;
    request->memory.block = (struct memory_block){0};
    if (memory_reserve(fakes->server.memory, 0, bytes, NULL) != STATUS_OK ||
        memory_take(fakes->server.memory, bytes, &request->memory.block, NULL) != STATUS_OK) {
        abort();
    }
    request->memory.reserved_bytes = bytes;
    request->memory.in_offset = request->memory.out_offset = request->memory.block.offset;
    memset((char *)slab_data(request->memory.block.slab) + request->memory.in_offset, 0, bytes);
    return request;
}

static inline void fake_release(struct fake_server *fakes, struct request *request)
{
    memory_give(fakes->server.memory, &request->memory.block);
    memory_release(fakes->server.memory, request->memory.reserved_bytes);
    free(request);
}

/* Tick like main() until the pool has this health. */
static inline bool fake_await_health(struct fake_server *fakes, enum device_pool_health health)
{
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    while (device_pool_health(fakes->server.devices) != health && clock_now_ns() < give_up_ns) {
        device_pool_tick(fakes->server.devices, clock_now_ns(), 0);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return device_pool_health(fakes->server.devices) == health;
}

/* Return the next finished request, ticking meanwhile; fails after 20 s. */
static inline struct request *fake_finished(struct fake_server *fakes)
{
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    struct request *request = NULL;
    while (request == NULL && clock_now_ns() < give_up_ns) {
        device_pool_tick(fakes->server.devices, clock_now_ns(), 0);
        request = fake_await(&fakes->completion, &fakes->rest, 5);
    }
    if (request == NULL) {
        abort();
    }
    return request;
}

#endif
