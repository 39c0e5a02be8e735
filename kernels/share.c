/* The shares are in a list, because a failed share exists beside its successor until the last
 * worker has closed it. The list's lock guards the references. No lock is held while an element
 * type is prepared, which takes up to a minute. */
#include "kernels/share.h"

#include "proto/macros.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROGRAMS = SCAN_VARIANT_COUNT * DTYPE_COUNT * SCAN_INDEX_COUNT
};

struct share {
    struct share *next;
    size_t number; /* number of the device in the list of devices */
    enum scan_lookback wanted;
#if defined(TALLY_TESTING)
    struct scan_aids aids;
#endif
    unsigned users; /* references; guarded by list_lock */
    atomic_bool failed;
    cl_context context;       /* owned */
    cl_command_queue mapping; /* owned: maps pinned memory */

    pthread_mutex_t verdicts_lock; /* guards `preparing` and `verdicts` */
    pthread_cond_t prepared;       /* `preparing` has become false */
    bool preparing;                /* a device prepares an element type */
    struct verdicts verdicts;
    pthread_mutex_t programs_lock; /* guards `programs` */
    cl_program programs[SCAN_VARIANT_COUNT][DTYPE_COUNT][SCAN_INDEX_COUNT]; /* owned */
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct share *list;       /* every share; guarded by list_lock */
static atomic_size_t open_count; /* shares that have not failed */

/* ---- life ---- */

static void destroy_share(struct share *share)
{
    cl_program *programs = &share->programs[0][0][0];
    for (size_t i = 0; i < PROGRAMS; i++) {
        if (programs[i] != NULL) {
            (void)clReleaseProgram(programs[i]);
        }
    }
    if (share->mapping != NULL) {
        (void)clReleaseCommandQueue(share->mapping);
    }
    if (share->context != NULL) {
        (void)clReleaseContext(share->context);
    }
    MUST(pthread_mutex_destroy(&share->programs_lock));
    MUST(pthread_cond_destroy(&share->prepared));
    MUST(pthread_mutex_destroy(&share->verdicts_lock));
    free(share);
}

static enum status create_share(const struct opencl *device, size_t number, struct share **out,
                                struct error *err)
{
    enum status status = STATUS_OK;
    struct share *share = calloc(1, sizeof *share);
    if (share == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a device");
    }
    MUST(pthread_mutex_init(&share->verdicts_lock, NULL));
    MUST(pthread_cond_init(&share->prepared, NULL));
    MUST(pthread_mutex_init(&share->programs_lock, NULL));
    share->number = number;
    share->wanted = device->lookback;
    IN_TESTS(share->aids = device->aids, (void)0);
    CL_MAKE(status, err, share->context, clCreateContext, NULL, 1, &device->id, NULL, NULL);
    if (status == STATUS_OK) {
        CL_MAKE(status, err, share->mapping, clCreateCommandQueue, share->context, device->id,
                0);
    }
    if (status != STATUS_OK) {
        destroy_share(share);
        return status;
    }
    *out = share;
    return STATUS_OK;
}

/* Return whether a device with these settings can use the share. */
static bool suits(const struct share *share, const struct opencl *device, size_t number)
{
    return share->number == number && share->wanted == device->lookback &&
           IN_TESTS(memcmp(&share->aids, &device->aids, sizeof share->aids) == 0, true) &&
           !atomic_load(&share->failed);
}

enum status share_open(const struct opencl *device, size_t number, struct share **out,
                       struct error *err)
{
    enum status status = STATUS_OK;
    MUST(pthread_mutex_lock(&list_lock));
    struct share *share = list;
    while (share != NULL && !suits(share, device, number)) {
        share = share->next;
    }
    if (share == NULL) {
        status = create_share(device, number, &share, err);
        if (share != NULL) { /* created */
            share->next = list;
            list = share;
            (void)atomic_fetch_add(&open_count, 1);
        }
    }
    if (share != NULL) {
        share->users++;
        *out = share;
    }
    MUST(pthread_mutex_unlock(&list_lock));
    return status;
}

void share_close(struct share *share)
{
    if (share == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&list_lock));
    const bool last = --share->users == 0;
    struct share **link = &list;
    while (*link != share) {
        link = &(*link)->next;
    }
    if (last) {
        *link = share->next;
    }
    MUST(pthread_mutex_unlock(&list_lock));
    if (last) {
        share_fail(share); /* removes the share from open_count */
        destroy_share(share);
    }
}

cl_context share_context(const struct share *share)
{
    return share->context;
}

void share_fail(struct share *share)
{
    if (share != NULL && !atomic_exchange(&share->failed, true)) {
        (void)atomic_fetch_sub(&open_count, 1);
    }
}

/* ---- preparation, once per share ---- */

bool share_prepare_begin(struct share *share, enum dtype dtype, struct verdicts *verdicts)
{
    MUST(pthread_mutex_lock(&share->verdicts_lock));
    /* Return as soon as this type is tested: a call that waited until all types are tested
     * would miss its deadline. */
    while (share->preparing && !share->verdicts.tested[dtype]) {
        MUST(pthread_cond_wait(&share->prepared, &share->verdicts_lock));
    }
    const bool mine = !share->verdicts.tested[dtype];
    share->preparing = share->preparing || mine;
    *verdicts = share->verdicts;
    MUST(pthread_mutex_unlock(&share->verdicts_lock));
    return mine;
}

void share_prepare_end(struct share *share, const struct verdicts *verdicts)
{
    MUST(pthread_mutex_lock(&share->verdicts_lock));
    share->verdicts = *verdicts;
    share->preparing = false;
    MUST(pthread_cond_broadcast(&share->prepared));
    MUST(pthread_mutex_unlock(&share->verdicts_lock));
}

static cl_program *program_of(struct share *share, enum scan_variant_id variant,
                              struct scan_type type)
{
    return &share->programs[variant][type.dtype][type.index];
}

cl_program share_find_program(struct share *share, enum scan_variant_id variant,
                              struct scan_type type)
{
    MUST(pthread_mutex_lock(&share->programs_lock));
    cl_program program = *program_of(share, variant, type);
    if (program != NULL && clRetainProgram(program) != CL_SUCCESS) {
        program = NULL;
    }
    MUST(pthread_mutex_unlock(&share->programs_lock));
    return program;
}

void share_add_program(struct share *share, enum scan_variant_id variant, struct scan_type type,
                       cl_program program)
{
    MUST(pthread_mutex_lock(&share->programs_lock));
    cl_program *place = program_of(share, variant, type);
    if (*place == NULL && clRetainProgram(program) == CL_SUCCESS) {
        *place = program;
    }
    MUST(pthread_mutex_unlock(&share->programs_lock));
}

/* ---- pinned memory ---- */

bool share_can_pin(void)
{
    return atomic_load(&open_count) > 0;
}

/* Returns a share that has not failed, with a reference for the caller; NULL if none exists. */
static struct share *hold_any(void)
{
    MUST(pthread_mutex_lock(&list_lock));
    struct share *share = list;
    while (share != NULL && atomic_load(&share->failed)) {
        share = share->next;
    }
    if (share != NULL) {
        share->users++;
    }
    MUST(pthread_mutex_unlock(&list_lock));
    return share;
}

bool share_pin(size_t bytes, size_t page, struct pinned *pinned)
{
    struct share *share = hold_any();
    struct pinned made = {.mem = NULL};
    cl_int code = CL_SUCCESS;
    size_t room = 0;
    if (share == NULL || __builtin_add_overflow(bytes, page, &room)) {
        share_close(share);
        return false;
    }
    made.mem = clCreateBuffer(share->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, room,
                              NULL, &code);
    if (code == CL_SUCCESS && clRetainCommandQueue(share->mapping) == CL_SUCCESS) {
        made.queue = share->mapping;
        made.mapped =
            clEnqueueMapBuffer(made.queue, made.mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                               room, 0, NULL, NULL, &code);
    }
    share_close(share);
    if (code != CL_SUCCESS || made.mapped == NULL) {
        share_unpin(&made);
        return false;
    }
    const size_t before = (page - (uintptr_t)made.mapped % page) % page;
    made.data = (unsigned char *)made.mapped + before;
    memset(made.data, 0, bytes);
    *pinned = made;
    return true;
}

void share_unpin(struct pinned *pinned)
{
    if (pinned->mapped != NULL) {
        (void)clEnqueueUnmapMemObject(pinned->queue, pinned->mem, pinned->mapped, 0, NULL,
                                      NULL);
        (void)clFinish(pinned->queue);
    }
    opencl_release(&pinned->mem);
    if (pinned->queue != NULL) {
        (void)clReleaseCommandQueue(pinned->queue);
    }
    *pinned = (struct pinned){.mem = NULL};
}
