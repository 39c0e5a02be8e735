/* The file of a checkpoint: written anew beside the last one, which it replaces when it is whole.
 *
 *     TALLYJOB, bytes of the job's text, that text, the next lane
 *     of each lane under way: lane, step, bytes of its carry, the carry */
#include "client/cli/checkpoint.h"

#include "client/cli/terminal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "TALLYJOB";

enum {
    CARRY_MOST = 1 << 30 /* of a lane: more is no carry of a part that was sent */
};

int checkpoint_note(struct lane_state *state, uint64_t lane, uint64_t step, const void *carry,
                    uint64_t carry_bytes)
{
    void *copy = realloc(state->carry, (size_t)carry_bytes + 1);
    if (copy == NULL) {
        return complain_no_memory();
    }
    if (carry_bytes > 0) {
        memcpy(copy, carry, (size_t)carry_bytes);
    }
    *state = (struct lane_state){
        .active = true, .lane = lane, .step = step, .carry = copy, .carry_bytes = carry_bytes};
    return EXIT_DONE;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    for (int i = 0; i < CHECKPOINT_LANES; i++) {
        free(checkpoint->lanes[i].carry);
    }
}

static void put_number(FILE *file, uint64_t number)
{
    (void)fwrite(&number, sizeof number, 1, file);
}

static bool write_checkpoint(FILE *file, const struct checkpoint *checkpoint)
{
    size_t job_bytes = strlen(checkpoint->job);
    (void)fwrite(MAGIC, sizeof MAGIC, 1, file);
    put_number(file, job_bytes);
    (void)fwrite(checkpoint->job, 1, job_bytes, file);
    put_number(file, checkpoint->next_lane);
    for (int i = 0; i < CHECKPOINT_LANES; i++) {
        const struct lane_state *lane = &checkpoint->lanes[i];
        if (lane->active) {
            put_number(file, lane->lane);
            put_number(file, lane->step);
            put_number(file, lane->carry_bytes);
            if (lane->carry_bytes > 0) {
                (void)fwrite(lane->carry, 1, (size_t)lane->carry_bytes, file);
            }
        }
    }
    return fflush(file) == 0 && ferror(file) == 0 && fdatasync(fileno(file)) == 0;
}

int checkpoint_save(const char *name, const struct checkpoint *checkpoint)
{
    size_t size = strlen(name) + sizeof ".new";
    char *path = malloc(size);
    bool saved = false;
    if (path == NULL) {
        return complain_no_memory();
    }
    (void)snprintf(path, size, "%s.new", name);
    FILE *file = fopen(path, "we");
    if (file != NULL) {
        saved = write_checkpoint(file, checkpoint);
        saved = fclose(file) == 0 && saved;
    }
    saved = saved && rename(path, name) == 0;
    int status = saved ? EXIT_DONE : complain(EXIT_LOCAL, "%s: %s", path, errno_text());
    free(path);
    return status;
}

/* The folder that a name leads to, and what follows it. */
static bool find_folder(const char *name, struct stat *folder, const char **last)
{
    char text[PATH_MAX] = ".";
    const char *slash = strrchr(name, '/');
    size_t count = slash == NULL ? 0 : (size_t)(slash - name) + 1;
    *last = name + count;
    if (count >= sizeof text) {
        return false;
    }
    memcpy(text, name, count);
    text[count == 0 ? 1 : count] = '\0';
    return stat(text, folder) == 0;
}

/* Is it the file of the result, or of the result so far, however it is spelled? */
static bool is_output(const char *name, const char *output)
{
    struct stat folder;
    struct stat of_output;
    const char *last = NULL;
    const char *output_last = NULL;
    if (!find_folder(name, &folder, &last) || !find_folder(output, &of_output, &output_last)) {
        return false;
    }
    size_t count = strlen(output_last);
    return folder.st_dev == of_output.st_dev && folder.st_ino == of_output.st_ino &&
           strncmp(last, output_last, count) == 0 &&
           (last[count] == '\0' || strcmp(last + count, ".partial") == 0);
}

int checkpoint_check(const char *name, const char *output)
{
    char magic[sizeof MAGIC] = "";
    FILE *file = fopen(name, "re");
    bool foreign = file != NULL && fread(magic, 1, sizeof magic, file) > 0 &&
                   memcmp(magic, MAGIC, sizeof magic) != 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (foreign) {
        return complain(EXIT_USAGE,
                        "--checkpoint %s: the file is there and is not a checkpoint", name);
    }
    return is_output(name, output)
               ? complain(EXIT_USAGE, "--checkpoint %s: the result is written there", name)
               : EXIT_DONE;
}

static bool take_number(FILE *file, uint64_t *number)
{
    return fread(number, sizeof *number, 1, file) == 1;
}

/* The next lane under way; false at the end, and *damaged if that is none. */
static bool take_lane(FILE *file, struct lane_state *lane, bool *damaged)
{
    if (!take_number(file, &lane->lane)) {
        return false;
    }
    *damaged = !take_number(file, &lane->step) || !take_number(file, &lane->carry_bytes) ||
               lane->carry_bytes > CARRY_MOST;
    lane->carry = *damaged ? NULL : malloc((size_t)lane->carry_bytes + 1);
    *damaged = lane->carry == NULL ||
               fread(lane->carry, 1, (size_t)lane->carry_bytes, file) != lane->carry_bytes;
    lane->active = true;
    return !*damaged;
}

int checkpoint_load(const char *name, struct checkpoint *checkpoint)
{
    char magic[sizeof MAGIC] = "";
    char job[JOB_TEXT] = "";
    uint64_t job_bytes = 0;
    bool damaged = false;
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return complain(EXIT_USAGE, "%s: %s; --resume goes on from a checkpoint", name,
                        errno_text());
    }
    damaged = fread(magic, sizeof magic, 1, file) != 1 ||
              memcmp(magic, MAGIC, sizeof magic) != 0 || !take_number(file, &job_bytes) ||
              job_bytes >= sizeof job || fread(job, 1, (size_t)job_bytes, file) != job_bytes ||
              !take_number(file, &checkpoint->next_lane);
    bool other = !damaged && strcmp(job, checkpoint->job) != 0;
    for (int i = 0; !damaged && i < CHECKPOINT_LANES; i++) {
        if (!take_lane(file, &checkpoint->lanes[i], &damaged)) {
            break;
        }
    }
    (void)fclose(file);
    if (damaged) {
        return complain(EXIT_USAGE, "%s is not a checkpoint", name);
    }
    return other ? complain(EXIT_USAGE, "%s is the checkpoint of another job: %s; this is %s",
                            name, job, checkpoint->job)
                 : EXIT_DONE;
}
