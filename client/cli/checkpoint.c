/* The file of a checkpoint is written anew beside the last one, which it replaces when it is
 * whole; checkpoint.h has its layout. */
#include "client/cli/checkpoint.h"

#include "client/cli/destination.h"
#include "client/cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define BESIDE ".new" /* behind the name of a checkpoint: the one that is being written */

static const char MAGIC[8] = "TALLYJOB";

enum {
    CARRY_MOST = 1 << 30 /* of a lane: more is no carry of a part that was sent */
};

int checkpoint_note(struct lane_state *state, uint64_t step, const void *carry,
                    uint64_t carry_bytes)
{
    void *copy = realloc(state->carry, (size_t)carry_bytes + 1);
    if (copy == NULL) {
        return complain_no_memory();
    }
    if (carry_bytes > 0) {
        memcpy(copy, carry, (size_t)carry_bytes);
    }
    state->step = step;
    state->carry = copy;
    state->carry_bytes = carry_bytes;
    return EXIT_DONE;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    for (int i = 0; i < CHECKPOINT_LANES; i++) {
        free(checkpoint->lanes[i].carry);
    }
    if (checkpoint->held != NULL) {
        (void)fclose(checkpoint->held);
    }
}

/* ---- its layout ---- */

/* A file that is written or read, and the CRC-32 of what has passed. */
struct passage {
    FILE *file; /* owned by who opened it */
    bool reads;
    uint32_t crc;
};

static bool pass_bytes(struct passage *passage, void *bytes, size_t count)
{
    size_t passed = 0;
    if (count > 0) { /* a lane may have no carry yet */
        passed = passage->reads
                     ? fread(bytes, 1, count, passage->file)
                     /* cppcheck-suppress IOWithoutPositioning ; a file has one way */
                     : fwrite(bytes, 1, count, passage->file);
        passage->crc = (uint32_t)crc32_z(passage->crc, bytes, passed);
    }
    return passed == count;
}

static bool pass_number(struct passage *passage, uint64_t *number)
{
    return pass_bytes(passage, number, sizeof *number);
}

/* A lane under way; false if that is none. */
static bool pass_lane(struct passage *passage, struct lane_state *lane)
{
    if (!pass_number(passage, &lane->lane) || !pass_number(passage, &lane->step) ||
        !pass_number(passage, &lane->carry_bytes) || lane->carry_bytes > CARRY_MOST) {
        return false;
    }
    if (passage->reads) {
        lane->active = true;
        lane->carry = malloc((size_t)lane->carry_bytes + 1);
    }
    return (!passage->reads || lane->carry != NULL) &&
           pass_bytes(passage, lane->carry, (size_t)lane->carry_bytes);
}

/* Everything, the job's text from or to `job`; false: it is no checkpoint, or not written. */
static bool pass_checkpoint(struct passage *passage, struct checkpoint *checkpoint,
                            char job[JOB_TEXT])
{
    char magic[sizeof MAGIC];
    uint64_t job_bytes = strlen(job);
    uint64_t active = 0;
    memcpy(magic, MAGIC, sizeof magic);
    for (int i = 0; i < CHECKPOINT_LANES; i++) {
        active += checkpoint->lanes[i].active;
    }
    if (!pass_bytes(passage, magic, sizeof magic) || memcmp(magic, MAGIC, sizeof magic) != 0 ||
        !pass_number(passage, &checkpoint->stamp) || !pass_number(passage, &job_bytes) ||
        job_bytes >= JOB_TEXT || !pass_bytes(passage, job, (size_t)job_bytes) ||
        !pass_number(passage, &checkpoint->next_lane) || !pass_number(passage, &active) ||
        active > CHECKPOINT_LANES) {
        return false;
    }
    for (uint64_t i = 0; i < CHECKPOINT_LANES; i++) {
        struct lane_state *lane = &checkpoint->lanes[i];
        bool passes = passage->reads ? i < active : lane->active;
        if (passes && !pass_lane(passage, lane)) {
            return false;
        }
    }
    uint64_t crc = passage->crc;
    uint64_t told = crc;
    return pass_number(passage, &told) && told == crc;
}

/* ---- its file ---- */

/* The folder of a name, the caller's to free, and what follows it. NULL: no memory. */
static char *folder_of(const char *name, const char **last)
{
    const char *slash = strrchr(name, '/');
    *last = slash == NULL ? name : slash + 1;
    return slash == NULL ? strdup(".") : strndup(name, (size_t)(*last - name));
}

/* The new name of a file is on the disk. Else a machine that goes down may come back with the
 * checkpoint of before beside sums of after. Not every folder may be read, or can do it. */
static bool sync_folder(const char *name)
{
    const char *last = NULL;
    char *folder = folder_of(name, &last);
    int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool failed = fd >= 0 && fsync(fd) != 0 && errno != EINVAL;
    int reason = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    free(folder);
    errno = reason;
    return !failed;
}

/* Is another file there than the one that is held? */
static bool is_another(const char *name, FILE *held)
{
    struct stat there;
    struct stat own = {.st_ino = 0};
    return stat(name, &there) == 0 &&
           (held == NULL || fstat(fileno(held), &own) != 0 || there.st_dev != own.st_dev ||
            there.st_ino != own.st_ino);
}

/* Write the new file, which is at `path` until it takes the name; it is held instead then. Who
 * has it locked is alone between a look at the name and taking it. */
static int replace_held(const char *path, const char *name, struct checkpoint *checkpoint,
                        FILE *file)
{
    struct passage passage = {.file = file};
    STEP(destination_lock(fileno(file), name));
    if (is_another(name, checkpoint->held)) {
        return complain(EXIT_LOCAL, "%s: another tally is writing it", name);
    }
    if (ftruncate(fileno(file), 0) != 0 ||
        !pass_checkpoint(&passage, checkpoint, checkpoint->job) || fflush(file) != 0 ||
        fdatasync(fileno(file)) != 0 || rename(path, name) != 0) {
        int status = complain_errno(EXIT_LOCAL, path);
        (void)unlink(path);
        return status;
    }
    return EXIT_DONE;
}

int checkpoint_save(const char *name, struct checkpoint *checkpoint)
{
    char *path = NULL;
    if (asprintf(&path, "%s" BESIDE, name) < 0) {
        return complain_no_memory();
    }
    /* Nothing is lost if another tally is writing it. Sums and elements are for nobody else. */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "a");
    int status = file != NULL ? replace_held(path, name, checkpoint, file)
                              : complain_errno(EXIT_LOCAL, path);
    FILE *old = status == EXIT_DONE ? checkpoint->held : file;
    if (old != NULL) {
        (void)fclose(old);
    }
    free(path);
    STEP(status);
    checkpoint->held = file;
    return sync_folder(name) ? EXIT_DONE : complain_errno(EXIT_LOCAL, name);
}

static bool find_folder(const char *name, const char **last, struct stat *about)
{
    char *folder = folder_of(name, last);
    bool found = folder != NULL && stat(folder, about) == 0;
    free(folder);
    return found;
}

/* Is it the file of the result, or of the result so far, however it is spelled? */
static bool is_output(const char *name, const char *output)
{
    struct stat here;
    struct stat there;
    const char *last = NULL;
    const char *output_last = NULL;
    bool found = find_folder(name, &last, &here);
    bool one_folder = find_folder(output, &output_last, &there) && found &&
                      here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    size_t count = strlen(output_last);
    return one_folder && strncmp(last, output_last, count) == 0 &&
           (last[count] == '\0' || strcmp(last + count, PARTIAL) == 0);
}

bool checkpoint_is_done(const struct checkpoint *checkpoint, uint64_t lanes)
{
    bool done = checkpoint->next_lane == lanes;
    for (int i = 0; i < CHECKPOINT_LANES; i++) {
        done = done && !checkpoint->lanes[i].active;
    }
    return done;
}

/* Is another file there than a checkpoint? *stamp is that of one; 0: it has none. *file is the
 * caller's, NULL if there is none that can be read. */
static bool is_foreign(const char *name, uint64_t *stamp, FILE **file)
{
    char magic[sizeof MAGIC] = "";
    struct stat about;
    bool there = stat(name, &about) == 0;
    *stamp = 0;
    *file = there && S_ISREG(about.st_mode) ? fopen(name, "re") : NULL;
    if (*file == NULL) {
        return there;
    }
    bool foreign =
        fread(magic, 1, sizeof magic, *file) > 0 && memcmp(magic, MAGIC, sizeof magic) != 0;
    if (fread(stamp, 1, sizeof *stamp, *file) < sizeof *stamp) {
        *stamp = 0;
    }
    return foreign;
}

/* What is written would be where it leads. */
static bool is_link(const char *name)
{
    struct stat about;
    return lstat(name, &about) == 0 && S_ISLNK(about.st_mode);
}

int checkpoint_check(const char *name, const char *output, struct checkpoint *checkpoint)
{
    char *beside = NULL;
    uint64_t unused = 0;
    FILE *file_beside = NULL;
    if (asprintf(&beside, "%s" BESIDE, name) < 0) {
        return complain_no_memory();
    }
    bool foreign = is_foreign(name, &checkpoint->stamp, &checkpoint->held);
    bool foreign_beside = is_foreign(beside, &unused, &file_beside) || is_link(beside);
    bool result = is_output(name, output) || is_output(beside, output);
    free(beside);
    if (file_beside != NULL) {
        (void)fclose(file_beside);
    }
    if (foreign || foreign_beside) {
        return complain(EXIT_USAGE,
                        "--checkpoint %s: the file is there and is not a checkpoint%s", name,
                        foreign ? "" : ", with " BESIDE " behind its name");
    }
    if (result) {
        return complain(EXIT_USAGE, "--checkpoint %s: the result is written there", name);
    }
    return checkpoint->held != NULL ? destination_lock(fileno(checkpoint->held), name)
                                    : EXIT_DONE;
}

int checkpoint_load(const char *name, struct checkpoint *checkpoint)
{
    char job[JOB_TEXT] = "";
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return complain(EXIT_USAGE, "%s: %s; --resume goes on from a checkpoint", name,
                        errno_text());
    }
    struct passage passage = {.file = file, .reads = true};
    bool damaged = !pass_checkpoint(&passage, checkpoint, job) || fgetc(file) != EOF;
    bool other = strcmp(job, checkpoint->job) != 0;
    (void)fclose(file);
    if (damaged) {
        return complain(EXIT_USAGE, "%s is not a checkpoint, or is damaged", name);
    }
    return other ? complain(EXIT_USAGE, "%s is the checkpoint of another job: %s; this is %s",
                            name, job, checkpoint->job)
                 : EXIT_DONE;
}
