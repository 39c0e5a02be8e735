/* The host side of launches on a GPU that exists only in another process (simulate.py): the
 * OpenCL functions that kernels/launch.c and its callees use, and a loop that runs scans with
 * launcher_run() as a test describes them. Tables, arguments, programs and sizes of work-groups
 * are therefore those of the product, whatever the kernels look like.
 *
 *   launches ARENA BYTES
 *
 * ARENA is a file of that size, mapped by both processes: all buffers of the device lie in it.
 * Lines on standard input, each a command:
 *
 *   begin LOOKBACK WIDE GENERIC TEST PARTITION IN OUT TYPE LINES
 *                        open the device; create buffers of IN and OUT bytes (OUT 0: in place) and
 *                        carries of LINES lines (0: none). LOOKBACK: 1 on, 0 off; WIDE, GENERIC, TEST
 *                        and PARTITION: the aids wide_index, generic_kernels, lookback_test and
 *                        partition_bytes. Answer: "buffers IN OUT CARRY"
 *   piece TYPE RANK AXIS EXCLUSIVE REVERSE IN OUT CARRY_LINE CARRY_IN CARRY_OUT SIZES STRIDES
 *                        add a scan; IN and OUT: elements to its cells with all indices 0
 *                        SIZES: RANK numbers; STRIDES: RANK of the input, RANK of the output
 *   run                  run the pieces. Answer: "ran LAUNCHES", or "failed MESSAGE"
 *   end                  close the device and free its memory
 *
 * During a run, standard output has the device's work:
 *
 *   source ID BYTES      a program is created; its source of so many bytes follows
 *   options ID OPTIONS   the program is built
 *   launch ID KERNEL GROUPS LANES TOP ARGUMENT...
 *                        a launch. TOP: bytes of the arena in use. ARGUMENT: b:OFFSET:BYTES, a
 *                        buffer, or v:BYTES in hexadecimal digits, lowest first. Once the next line
 *                        of standard input is "done" the launch has run; otherwise it failed
 *
 * The first malformed command, a call that no kernel for GPUs makes, and an arena that is too small
 * end the process with a message. */
#include "kernels/launcher.h"
#include "proto/macros.h"
#include "tests/lib/device_aids.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    BUFFERS_MAX = 64,
    PIECES_MAX = 64,
    ARGS_MAX = 16,
    ARG_BYTES_MAX = 16,
    COMPUTE_UNITS = 132,
    BUFFER_ALIGN = 256,
    GUARD_BYTES = 4096, /* after each buffer: an access there is out of bounds */
    FRESH = 0xA5        /* content of new memory */
};

struct buffer {
    uint64_t offset;
    uint64_t bytes;
};

struct program_made {
    int id;
};

struct kernel_made {
    int program;
    char name[64];
    struct {
        size_t bytes;
        unsigned char value[ARG_BYTES_MAX];
    } args[ARGS_MAX];
    cl_uint arg_count;
};

static unsigned char *arena;
static uint64_t arena_bytes;
static uint64_t arena_top;
static struct buffer buffers[BUFFERS_MAX];
static size_t buffer_count;
static int program_count;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "launches: %s\n", what);
    exit(2);
}

/* ---- OpenCL ---- */

static const struct buffer *find_buffer(const void *handle)
{
    for (size_t i = 0; i < buffer_count; i++) {
        if (handle == &buffers[i]) {
            return &buffers[i];
        }
    }
    return NULL;
}

static struct buffer *range_of(cl_mem mem, size_t from, size_t bytes)
{
    const struct buffer *buffer = find_buffer(mem);
    if (buffer == NULL || from > buffer->bytes || bytes > buffer->bytes - from) {
        die("a command reaches beyond its buffer");
    }
    return &buffers[buffer - buffers];
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags,
                                               size_t size, void *host_ptr, cl_int *code)
{
    (void)context;
    (void)flags;
    const uint64_t end = arena_top + size + GUARD_BYTES;
    if (host_ptr != NULL || buffer_count == BUFFERS_MAX || end > arena_bytes) {
        die("no room for a buffer");
    }
    struct buffer *made = &buffers[buffer_count++];
    *made = (struct buffer){.offset = arena_top, .bytes = size};
    memset(arena + arena_top, FRESH, size + GUARD_BYTES);
    arena_top = (end + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
    *code = CL_SUCCESS;
    return (cl_mem)made;
}

/* The memory is free at the end of the case. */
CL_API_ENTRY cl_int CL_API_CALL clReleaseMemObject(cl_mem mem)
{
    (void)range_of(mem, 0, 0);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                              const char **strings,
                                                              const size_t *lengths,
                                                              cl_int *code)
{
    (void)context;
    struct program_made *made = calloc(1, sizeof *made);
    size_t bytes = 0;
    if (made == NULL) {
        die("no memory");
    }
    made->id = program_count++;
    for (cl_uint i = 0; i < count; i++) {
        bytes += lengths[i];
    }
    (void)printf("source %d %zu\n", made->id, bytes);
    for (cl_uint i = 0; i < count; i++) {
        (void)fwrite(strings[i], 1, lengths[i], stdout);
    }
    *code = CL_SUCCESS;
    return (cl_program)made;
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint device_count,
                                               const cl_device_id *devices, const char *options,
                                               void(CL_CALLBACK *done)(cl_program, void *),
                                               void *context)
{
    (void)device_count;
    (void)devices;
    (void)done;
    (void)context;
    (void)printf("options %d %s\n", ((const struct program_made *)program)->id, options);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    free(program);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name,
                                                  cl_int *code)
{
    struct kernel_made *made = calloc(1, sizeof *made);
    if (made == NULL || strlen(name) >= sizeof made->name) {
        die("no room for a kernel");
    }
    made->program = ((const struct program_made *)program)->id;
    memcpy(made->name, name, strlen(name));
    *code = CL_SUCCESS;
    return (cl_kernel)made;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    free(kernel);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size,
                                               const void *value)
{
    struct kernel_made *made = (struct kernel_made *)kernel;
    if (index >= ARGS_MAX || size > ARG_BYTES_MAX) {
        die("no room for an argument");
    }
    made->args[index].bytes = size;
    memcpy(made->args[index].value, value, size);
    made->arg_count = (cl_uint)larger_of(made->arg_count, index + 1);
    return CL_SUCCESS;
}

static void print_arg(size_t bytes, const unsigned char *value)
{
    const void *handle = NULL;
    memcpy(&handle, value, bytes < sizeof handle ? 0 : sizeof handle);
    const struct buffer *buffer = bytes == sizeof handle ? find_buffer(handle) : NULL;
    if (buffer != NULL) {
        (void)printf(" b:%" PRIu64 ":%" PRIu64, buffer->offset, buffer->bytes);
        return;
    }
    (void)printf(" v:");
    for (size_t i = 0; i < bytes; i++) {
        (void)printf("%02x", value[i]);
    }
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                       cl_uint dims, const size_t *offset,
                                                       const size_t *global,
                                                       const size_t *local, cl_uint waits,
                                                       const cl_event *wait, cl_event *event)
{
    const struct kernel_made *made = (const struct kernel_made *)kernel;
    char answer[16];
    (void)queue;
    (void)waits;
    (void)wait;
    if (dims != 1 || offset != NULL || event != NULL) {
        die("a launch that no kernel for GPUs has");
    }
    (void)printf("launch %d %s %zu %zu %" PRIu64, made->program, made->name, *global / *local,
                 *local, arena_top);
    for (cl_uint i = 0; i < made->arg_count; i++) {
        print_arg(made->args[i].bytes, made->args[i].value);
    }
    (void)printf("\n");
    (void)fflush(stdout);
    const bool answered = fgets(answer, sizeof answer, stdin) != NULL;
    return answered && strcmp(answer, "done\n") == 0 ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem,
                                                    const void *pattern, size_t pattern_size,
                                                    size_t from, size_t size, cl_uint waits,
                                                    const cl_event *wait, cl_event *event)
{
    (void)queue;
    (void)waits;
    (void)wait;
    (void)event;
    unsigned char *to = arena + range_of(mem, from, size)->offset + from;
    for (size_t i = 0; i < size; i += pattern_size) {
        memcpy(to + i, pattern, pattern_size);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem,
                                                     cl_bool blocking, size_t from, size_t size,
                                                     const void *data, cl_uint waits,
                                                     const cl_event *wait, cl_event *event)
{
    (void)queue;
    (void)blocking;
    (void)waits;
    (void)wait;
    (void)event;
    memcpy(arena + range_of(mem, from, size)->offset + from, data, size);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem,
                                                    cl_bool blocking, size_t from, size_t size,
                                                    void *data, cl_uint waits,
                                                    const cl_event *wait, cl_event *event)
{
    (void)queue;
    (void)blocking;
    (void)waits;
    (void)wait;
    (void)event;
    memcpy(data, arena + range_of(mem, from, size)->offset + from, size);
    return CL_SUCCESS;
}

/* Every command ends before it returns. */
CL_API_ENTRY cl_int CL_API_CALL clFinish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

/* ---- commands ---- */

static struct {
    struct opencl device;
    struct launcher launcher;
    struct scan_set set;
    struct scan_piece pieces[PIECES_MAX];
    struct scan_plan plans[PIECES_MAX];
} run;

/* The next number of the command. */
static int64_t next_number(void)
{
    const char *word = strtok(NULL, " \n");
    if (word == NULL) {
        die("a number is missing");
    }
    return strtoll(word, NULL, 10);
}

static enum dtype next_type(void)
{
    const char *word = strtok(NULL, " \n");
    enum dtype type;
    if (word == NULL || !dtype_find(DTYPE_FAMILY_NAME, word, strlen(word), &type)) {
        die("no element type");
    }
    return type;
}

static cl_mem make_buffer(uint64_t bytes)
{
    cl_int code = CL_SUCCESS;
    return bytes > 0 ? clCreateBuffer(run.device.context, 0, (size_t)bytes, NULL, &code) : NULL;
}

static uint64_t buffer_offset(cl_mem mem)
{
    const struct buffer *buffer = find_buffer(mem);
    return buffer != NULL ? buffer->offset : 0;
}

static void begin(void)
{
    run.device =
        (struct opencl){.gpu_kernels = true,
                        .alloc_limit = 1, /* buffers have the size that is asked for */
                        .info = {.kind = SCAN_DEVICE_GPU, .compute_units = COMPUTE_UNITS}};
    run.device.lookback = next_number() != 0 ? SCAN_LOOKBACK_ON : SCAN_LOOKBACK_OFF;
    run.device.wide_index = next_number() != 0;
    run.device.aids.poison = true;
    run.device.aids.generic_kernels = next_number() != 0;
    run.device.aids.lookback_test = (unsigned)next_number();
    run.device.aids.partition_bytes = (uint64_t)next_number();
    run.launcher = (struct launcher){.device = &run.device};
    run.set = (struct scan_set){.pieces = run.pieces};
    run.set.in = make_buffer((uint64_t)next_number());
    const uint64_t out_bytes = (uint64_t)next_number();
    run.set.out = out_bytes > 0 ? make_buffer(out_bytes) : run.set.in;
    const enum dtype type = next_type();
    run.set.carry = make_buffer((uint64_t)next_number() * scan_carry_bytes(type));
    (void)printf("buffers %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", buffer_offset(run.set.in),
                 buffer_offset(run.set.out), buffer_offset(run.set.carry));
}

static void add_piece(void)
{
    struct scan_desc desc = {.has_strides = true, .has_output_strides = true};
    struct scan_piece piece = {.plan = &run.plans[run.set.count]};
    struct error err = ERROR_INIT;
    desc.dtype = next_type();
    desc.rank = (int)next_number();
    desc.axis = next_number();
    desc.exclusive = next_number() != 0;
    desc.reverse = next_number() != 0;
    piece.in_first = (uint64_t)next_number();
    piece.out_first = (uint64_t)next_number();
    piece.carry_line = (uint64_t)next_number();
    piece.carry_in = next_number() != 0;
    piece.carry_out = next_number() != 0;
    if (run.set.count == PIECES_MAX || desc.rank < 1 || desc.rank > LIMIT_RANK) {
        die("no room for a piece");
    }
    for (int i = 0; i < desc.rank; i++) {
        desc.sizes[i] = next_number();
    }
    for (int i = 0; i < desc.rank; i++) {
        desc.strides[i] = next_number();
    }
    for (int i = 0; i < desc.rank; i++) {
        desc.output_strides[i] = next_number();
    }
    if (scan_plan_make(&desc, &run.plans[run.set.count], &err) != STATUS_OK) {
        die(err.detail);
    }
    run.pieces[run.set.count++] = piece;
}

static void run_pieces(void)
{
    struct error err = ERROR_INIT;
    uint32_t launches = 0;
    const enum status status = launcher_run(&run.launcher, &run.set, &launches, &err);
    run.launcher.table.used = 0; /* the queue is empty */
    run.set.count = 0;
    if (status == STATUS_OK) {
        (void)printf("ran %u\n", launches);
    } else {
        (void)printf("failed %s\n", err.detail);
    }
}

static void end(void)
{
    launcher_deinit(&run.launcher);
    buffer_count = 0;
    arena_top = BUFFER_ALIGN; /* no buffer has address 0 */
    program_count = 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } commands[] = {{"begin", begin}, {"piece", add_piece}, {"run", run_pieces}, {"end", end}};
    char line[4096];
    const int file = argc == 3 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    arena_bytes = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    arena = file >= 0
                ? mmap(NULL, (size_t)arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                : MAP_FAILED;
    if (arena == MAP_FAILED) {
        die("usage: launches ARENA BYTES");
    }
    arena_top = BUFFER_ALIGN;
    while (fgets(line, sizeof line, stdin) != NULL) {
        const char *name = strtok(line, " \n");
        size_t i = 0;
        while (i < ARRAY_COUNT(commands) &&
               (name == NULL || strcmp(commands[i].name, name) != 0)) {
            i++;
        }
        if (i == ARRAY_COUNT(commands)) {
            die("no such command");
        }
        commands[i].run();
        (void)fflush(stdout);
    }
    return 0;
}
