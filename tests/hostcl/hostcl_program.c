/* A program becomes a file DIR/HASH.cl (the built-ins, then its source), and clang makes
 * DIR/HASH.so of it; a library that is there already is taken. DIR is $HOSTCL_CACHE. */
#include "tests/hostcl/hostcl.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WORDS_MAX = 64,
    TEXT_ROOM = 4096
};

extern char **environ;

/* The compiler and what it is told besides: as the process itself was built. */
static const char compiler[] =
    HOSTCL_COMPILER " -x cl -Xclang -finclude-default-header -w -fPIC "
                    "-shared -ffp-contract=off " HOSTCL_FLAGS;

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                     const size_t *lengths, cl_int *code)
{
    (void)context;
    struct _cl_program *program = calloc(1, sizeof *program);
    size_t bytes = 1;
    for (cl_uint i = 0; i < count; i++) {
        bytes += lengths[i];
    }
    char *source = malloc(bytes);
    *code = program != NULL && source != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (*code != CL_SUCCESS) {
        free(program);
        free(source);
        return NULL;
    }
    size_t at = 0;
    for (cl_uint i = 0; i < count; i++) {
        memcpy(source + at, texts[i], lengths[i]);
        at += lengths[i];
    }
    source[at] = '\0';
    program->source = source;
    return program;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *ids,
                                     const size_t *lengths, const unsigned char **binaries,
                                     cl_int *status, cl_int *code)
{
    (void)context;
    (void)count;
    (void)ids;
    (void)lengths;
    (void)binaries;
    *status = CL_INVALID_BINARY;
    *code = CL_INVALID_BINARY;
    return NULL;
}

cl_int clReleaseProgram(cl_program program)
{
    if (program->library != NULL) {
        (void)dlclose(program->library);
    }
    free(program->source);
    free(program->log);
    free(program);
    return CL_SUCCESS;
}

/* The whole of a file; aborts if it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, (size_t)1 << 20);
    if (file == NULL || text == NULL) {
        hostcl_die("cannot read %s", path);
    }
    size_t bytes = fread(text, 1, ((size_t)1 << 20) - 1, file);
    text[bytes] = '\0';
    (void)fclose(file);
    return text;
}

static void write_file(const char *path, const char *first, const char *second)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s#line 1 \"kernel\"\n%s", first, second) < 0 ||
        fclose(file) != 0) {
        hostcl_die("cannot write %s", path);
    }
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Run a command, its words divided by spaces, its output to a file; true if it ended well. */
static int run(char *command, const char *log)
{
    char *words[WORDS_MAX + 1];
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(command, " ", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    words[count] = NULL;
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int status = -1;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, 0x241, 0644);
    if (posix_spawnp(&child, words[0], &actions, NULL, words, environ) == 0) {
        (void)waitpid(child, &status, 0);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

/* Compile into `library`, by way of a name of this process, so that two may do it. */
static int compile(cl_program program, const char *builtins, const char *options,
                   const char *library)
{
    char source[TEXT_ROOM / 8];
    char made[TEXT_ROOM / 8];
    char log[TEXT_ROOM / 8];
    char command[TEXT_ROOM];
    int stem = (int)strlen(library) - 3;
    (void)snprintf(source, sizeof source, "%.*s.cl", stem, library);
    (void)snprintf(made, sizeof made, "%.*s.%d", stem, library, (int)getpid());
    (void)snprintf(log, sizeof log, "%.*s.log", stem, library);
    write_file(source, builtins, program->source);
    (void)snprintf(command, sizeof command, "%s %s -o %s %s", compiler, options, made, source);
    if (!run(command, log)) {
        program->log = read_file(log);
        return 0;
    }
    return rename(made, library) == 0;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *ids,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *data)
{
    (void)count;
    (void)ids;
    (void)notify;
    (void)data;
    const char *dir = getenv("HOSTCL_CACHE");
    char library[TEXT_ROOM / 8];
    if (dir == NULL) {
        hostcl_die("HOSTCL_CACHE is not set");
    }
    char *builtins = read_file("tests/hostcl/builtins.cl");
    uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), compiler);
    hash = hash_text(hash_text(hash_text(hash, options), builtins), program->source);
    (void)snprintf(library, sizeof library, "%s/%016" PRIx64 ".so", dir, hash);
    int there = access(library, R_OK) == 0 || compile(program, builtins, options, library);
    free(builtins);
    if (!there) {
        return CL_BUILD_PROGRAM_FAILURE;
    }
    program->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (program->library == NULL) { /* builtins.cl lacks something: no test may go on without */
        hostcl_die("%s", dlerror());
    }
    return CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id id, cl_program_build_info what,
                             size_t room, void *out, size_t *size)
{
    (void)id;
    const char *log = program->log != NULL ? program->log : "";
    if (what != CL_PROGRAM_BUILD_LOG || (out != NULL && room <= strlen(log))) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL) {
        memcpy(out, log, strlen(log) + 1);
    }
    if (size != NULL) {
        *size = strlen(log) + 1;
    }
    return CL_SUCCESS;
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t room, void *out,
                        size_t *size)
{
    (void)program;
    (void)what;
    (void)room;
    (void)out;
    (void)size;
    return CL_INVALID_VALUE; /* there is no binary to have */
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    struct _cl_kernel *kernel = calloc(1, sizeof *kernel);
    void *symbol = dlsym(program->library, name);
    *code = kernel == NULL   ? CL_OUT_OF_HOST_MEMORY
            : symbol == NULL ? CL_INVALID_KERNEL_NAME
                             : CL_SUCCESS;
    if (*code != CL_SUCCESS) {
        free(kernel);
        return NULL;
    }
    memcpy(&kernel->code, &symbol, sizeof symbol);
    return kernel;
}

cl_int clReleaseKernel(cl_kernel kernel)
{
    free(kernel);
    return CL_SUCCESS;
}
