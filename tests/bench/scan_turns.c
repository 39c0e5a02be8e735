/* Runs one scan whenever a parent process asks for it; compute.py compares the times with those
 * of NumPy and other libraries.
 *
 *   scan_turns DTYPE SHAPE AXIS FLAGS INPUT OUTPUT
 *
 * FLAGS: "exclusive", "reverse", "exclusive,reverse" or "-". Reads the tensor in INPUT, scans
 * it into another buffer on device 0, writes the result to OUTPUT and prints "ready". Then it
 * repeats the scan for each line on standard input and prints the seconds that it took. Ends at
 * the end of standard input. Links libOpenCL alone. */
#include "kernels/device.h"
#include "tests/bench/bench_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool parse(char **words, struct scan_desc *desc)
{
    char *end = NULL;
    int64_t sizes[3] = {0};
    *desc = (struct scan_desc){.rank = bench_parse_numbers(words[1], 1, sizes),
                               .axis = strtol(words[2], &end, 10),
                               .exclusive = strstr(words[3], "exclusive") != NULL,
                               .reverse = strstr(words[3], "reverse") != NULL};
    memcpy(desc->sizes, sizes, sizeof sizes);
    return *end == '\0' &&
           dtype_find(DTYPE_FAMILY_NAME, words[0], strlen(words[0]), &desc->dtype);
}

static bool whole_file(const char *path, const char *mode, void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    bool ok = file != NULL && (*mode == 'r' ? fread(data, 1, bytes, file)
                                            : fwrite(data, 1, bytes, file)) == bytes;
    ok = file != NULL && fclose(file) == 0 && ok;
    if (!ok) {
        perror(path);
    }
    return ok;
}

static bool scan(struct scan_device *device, const struct scan_job *job, double *seconds)
{
    struct scan_report report;
    struct error err = ERROR_INIT;
    double start = now_s();
    bool ok = scan_device_run(device, job, 1, &report, &err) == STATUS_OK;
    *seconds = scan_device_info(device)->host_memory ? now_s() - start
                                                     : 1e-9 * (double)report.compute_ns;
    if (!ok) {
        (void)fprintf(stderr, "%s\n", err.detail);
    }
    return ok;
}

static bool serve(struct scan_device *device, const struct scan_job *job)
{
    char line[16];
    double seconds = 0;
    bool ok = true;
    (void)puts("ready");
    (void)fflush(stdout);
    while (ok && fgets(line, sizeof line, stdin) != NULL) {
        ok = scan(device, job, &seconds);
        (void)printf("%.9f\n", seconds);
        (void)fflush(stdout);
    }
    return ok;
}

int main(int argc, char **argv)
{
    struct scan_desc desc;
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    struct scan_device *device = NULL;
    if (argc != 7 || !parse(argv + 1, &desc)) {
        (void)fprintf(stderr, "usage: scan_turns DTYPE SHAPE AXIS FLAGS IN OUT\n");
        return 2;
    }
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK ||
        scan_device_open(0, SCAN_LOOKBACK_AUTO, &device, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return 1;
    }
    size_t bytes = (size_t)plan.elements * dtype_info(plan.dtype)->bytes;
    size_t out_at = (bytes + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    struct slab *slab = bytes > 0 ? slab_create(out_at + bytes) : NULL;
    bool ok = slab != NULL;
    if (ok) {
        unsigned char *data = slab_data(slab);
        const struct scan_job job = {.plan = &plan, .slab = slab, .out_offset = out_at};
        double seconds = 0;
        ok = whole_file(argv[5], "re", data, bytes) && scan(device, &job, &seconds) &&
             whole_file(argv[6], "we", data + out_at, bytes) && serve(device, &job);
    }
    scan_device_close(device);
    slab_destroy(slab);
    return ok ? 0 : 1;
}
