/* Fills of more than 1 GiB: several NVIDIA drivers hang or fail on one of 2 GiB. The linker
 * replaces clEnqueueFillBuffer by a function that records the calls (Makefile); no device is
 * needed. */
#include "kernels/opencl.h"
#include "tests/lib/ktest.h"

enum {
    CALLS_MAX = 8
};

static struct {
    size_t from[CALLS_MAX];
    size_t bytes[CALLS_MAX];
    size_t count;
    size_t fails; /* number of the failing call, from 1; 0: none */
} calls;

cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                                  size_t pattern_bytes, size_t from, size_t bytes,
                                  cl_uint event_count, const cl_event *events, cl_event *event);
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                                  size_t pattern_bytes, size_t from, size_t bytes,
                                  cl_uint event_count, const cl_event *events, cl_event *event)
{
    (void)queue, (void)mem, (void)pattern, (void)pattern_bytes;
    (void)event_count, (void)events, (void)event;
    if (calls.count < CALLS_MAX) {
        calls.from[calls.count] = from;
        calls.bytes[calls.count] = bytes;
    }
    calls.count++;
    return calls.count == calls.fails ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static enum status fill(uint64_t from, uint64_t bytes)
{
    const struct opencl device = {.id = NULL};
    struct error err = ERROR_INIT;
    calls.count = 0;
    return opencl_fill(&device, NULL, 0, from, bytes, &err);
}

static void a_large_fill_is_cut_into_pieces_without_gaps(const void *context)
{
    const uint64_t most = UINT64_C(1) << 30;
    const uint64_t sizes[] = {4, most, most + 4, 4 * most + 8};
    const size_t counts[] = {1, 1, 2, 5};
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        uint64_t at = 64;
        ktest_check(fill(at, sizes[i]) == STATUS_OK, "the fill succeeds");
        ktest_check(calls.count == counts[i], "number of pieces");
        for (size_t c = 0; c < calls.count && c < CALLS_MAX; c++) {
            ktest_check(calls.from[c] == at, "a piece begins where the one before it ends");
            ktest_check(calls.bytes[c] <= most, "a piece has at most 1 GiB");
            at += calls.bytes[c];
        }
        ktest_check(at == 64 + sizes[i], "the last piece ends with the fill");
    }
}

static void a_piece_that_fails_ends_the_fill(const void *context)
{
    (void)context;
    calls.fails = 2;
    ktest_check(fill(0, UINT64_C(3) << 30) == STATUS_DEVICE_ERROR, "the fill fails");
    ktest_check(calls.count == 2, "nothing is filled after the failure");
    calls.fails = 0;
}

int main(void)
{
    ktest_run("a large fill is cut into pieces without gaps",
              a_large_fill_is_cut_into_pieces_without_gaps, NULL);
    ktest_run("a piece that fails ends the fill", a_piece_that_fails_ends_the_fill, NULL);
    return ktest_finish();
}
