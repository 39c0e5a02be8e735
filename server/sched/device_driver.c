/* The real driver: kernels/scan_device.h as it is. */
#include "proto/macros.h"
#include "server/base/config.h"
#include "server/lifecycle.h"
#include "server/sched/device_pool.h"

#include <stdlib.h>

const struct device_driver device_driver_opencl = {
    .list = scan_devices_list,
    .open = scan_device_open,
    .prepare = scan_device_prepare,
    .close = scan_device_close,
    .run = scan_device_run,
    .info = scan_device_info,
};

/* Our own driver and PoCL's, which looks at the machine, not at what of it is for this process.
 * PoCL's name for the number was the first up to 3.1, is the second since 4.0, and may be the
 * third since 7.0. */
void device_driver_limit_threads(uint64_t cpus)
{
    static const char *const names[] = {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT",
                                        "POCL_MAX_COMPUTE_UNITS"};
    char number[24];
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)cpus);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread yet */
    (void)setenv("TALLY_OPENCL_THREADS", number, 1);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (getenv(names[i]) != NULL) { /* NOLINT(concurrency-mt-unsafe): the same */
            return;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        (void)setenv(names[i], number, 0); /* NOLINT(concurrency-mt-unsafe): the same */
    }
}

int device_list_print(FILE *out)
{
    static const char *const kinds[] = {"CPU", "GPU", "other"};
    struct scan_device_info *infos = calloc(DEVICE_POOL_MAX, sizeof *infos);
    size_t count = 0;
    struct error err = ERROR_INIT;
    if (infos == NULL || scan_devices_list(infos, DEVICE_POOL_MAX, &count, &err) != STATUS_OK) {
        free(infos);
        (void)fprintf(stderr, "tallyd: %s\n", err.detail);
        return EXIT_CODE_NO_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        char memory[32];
        config_size_text(infos[i].memory_bytes, memory, sizeof memory);
        (void)fprintf(out, "%zu: %s\n   %s; %s; driver %s; %u compute units; %s%s%s\n", i,
                      infos[i].name, infos[i].platform, kinds[infos[i].kind], infos[i].driver,
                      infos[i].compute_units, memory,
                      infos[i].fp64 ? "" : "; float64 in integers",
                      infos[i].host_memory ? "; works in host memory" : "");
    }
    free(infos);
    return EXIT_CODE_OK;
}
