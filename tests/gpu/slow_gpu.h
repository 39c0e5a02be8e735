/* A test's view of the GPU of slow_gpu.c. The functions are found by dlsym() in the library that the ICD
 * loader has loaded. Thread: any. */
#ifndef TALLY_TESTS_GPU_SLOW_GPU_H
#define TALLY_TESTS_GPU_SLOW_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The engines of the GPU. Each runs one command at a time, beside those of the others. */
enum slow_gpu_engine {
    SLOW_GPU_UPLOAD,
    SLOW_GPU_SCAN,
    SLOW_GPU_DOWNLOAD,
    SLOW_GPU_ENGINES
};

enum {
    SLOW_GPU_TRANSFERS = 64
};

struct slow_gpu_settings {
    uint64_t bytes_per_s; /* of transfers of 64 KiB and more in each direction; 0: no delay */
    uint64_t launch_us;   /* duration of a launch, beside that of the processor */
    uint64_t
        first_us; /* additional duration of the first launch of each number of work-items */
    uint64_t lost_after; /* number of commands after which the GPU is lost for good; 0: never */
};

/* Counts since slow_gpu_set(). */
struct slow_gpu_counts {
    uint64_t commands;
    /* How often a command of the first engine began while one of the second engine was unfinished. */
    uint64_t overlaps[SLOW_GPU_ENGINES][SLOW_GPU_ENGINES];
    uint64_t begun[SLOW_GPU_ENGINES];
    uint64_t
        waits; /* calls that wait in the driver: clFinish, clWaitForEvents, blocking copies */
    uint64_t buffers; /* created, those of pinned memory included */
    uint64_t contexts;
    uint64_t builds;        /* programs compiled */
    uint64_t fill_most;     /* bytes of the largest fill */
    uint64_t fills_refused; /* fills of 2 GiB and more, which fail */
    struct slow_gpu_transfer {
        const void *host;
        uint64_t bytes;
        bool up;
    } transfers[SLOW_GPU_TRANSFERS]; /* the first ones of 64 KiB and more */
    size_t transfer_count;
};

/* Begin anew: also a lost GPU works again, as after a restart of the machine. */
void slow_gpu_set(const struct slow_gpu_settings *settings);
void slow_gpu_get(struct slow_gpu_counts *counts);

#endif
