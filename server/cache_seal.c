/* A line of the seal is "<checksum in 16 hex digits> <entry>". Files that only tell when an
 * entry was used do not count, and neither do those outside of entries (temporary ones). */
#include "server/cache_seal.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ENTRY_LEVEL = 2,
    PATH_BYTES = 512
};

static const char seal_name[] = "tally.seal";
static const char uncounted[] = "last_accessed";

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t count)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

struct entry {
    char path[PATH_BYTES]; /* below the directory */
    uint64_t hash;
};

struct entries {
    struct entry *items; /* owned */
    size_t count;
    size_t capacity;
};

static bool add_entry(struct entries *entries, const char *path, uint64_t hash)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? 64 : entries->capacity * 2;
        struct entry *items = reallocarray(entries->items, capacity, sizeof *items);
        if (items == NULL) {
            return false;
        }
        entries->items = items;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->items[entries->count];
    int written = snprintf(entry->path, sizeof entry->path, "%s", path);
    if (written < 0 || (size_t)written >= sizeof entry->path) {
        return false;
    }
    entry->hash = hash;
    entries->count++;
    return true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static FTS *open_tree(const char *directory)
{
    char *copy = strdup(directory);
    char *const roots[] = {copy, NULL};
    FTS *tree = copy == NULL ? NULL : fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    free(copy);
    return tree;
}

/* What one file adds to its entry's checksum. */
static uint64_t hash_content(uint64_t hash, const FTSENT *node)
{
    FILE *file = fopen(node->fts_accpath, "re");
    if (file == NULL) {
        return ~hash; /* agrees with nothing */
    }
    char piece[65536];
    size_t got;
    while ((got = fread(piece, 1, sizeof piece, file)) > 0) {
        hash = hash_bytes(hash, piece, got);
    }
    (void)fclose(file);
    return hash;
}

static uint64_t hash_times(uint64_t hash, const FTSENT *node)
{
    const struct stat *info = node->fts_statp;
    const int64_t facts[] = {info->st_size, info->st_mtim.tv_sec, info->st_mtim.tv_nsec};
    return hash_bytes(hash, facts, sizeof facts);
}

typedef uint64_t (*hash_file)(uint64_t hash, const FTSENT *node);

static bool counts(const FTSENT *node)
{
    return node->fts_info == FTS_F && node->fts_level > ENTRY_LEVEL &&
           strcmp(node->fts_name, uncounted) != 0;
}

/* Every entry and its checksum, in order; false if there is no memory for them. */
static bool collect(const char *directory, hash_file hash_one, struct entries *entries)
{
    FTS *tree = open_tree(directory);
    if (tree == NULL) {
        return false;
    }
    size_t root = strlen(directory) + 1;
    uint64_t hash = HASH_START;
    bool kept = true;
    for (FTSENT *node = fts_read(tree); node != NULL && kept; node = fts_read(tree)) {
        if (node->fts_info == FTS_D && node->fts_level == ENTRY_LEVEL) {
            hash = HASH_START;
        } else if (counts(node)) {
            hash = hash_bytes(hash, node->fts_path + root, strlen(node->fts_path + root) + 1);
            hash = hash_one(hash, node);
        } else if (node->fts_info == FTS_DP && node->fts_level == ENTRY_LEVEL) {
            kept = add_entry(entries, node->fts_path + root, hash);
        }
    }
    (void)fts_close(tree);
    return kept;
}

static void remove_tree(const char *path)
{
    FTS *tree = open_tree(path);
    if (tree == NULL) {
        return;
    }
    for (FTSENT *node = fts_read(tree); node != NULL; node = fts_read(tree)) {
        if (node->fts_info == FTS_DP) {
            (void)rmdir(node->fts_accpath);
        } else if (node->fts_info != FTS_D) {
            (void)unlink(node->fts_accpath);
        }
    }
    (void)fts_close(tree);
}

/* The entries that the seal names; none if it cannot be read. */
static void read_seal(const char *directory, struct entries *sealed)
{
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/%s", directory, seal_name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    char line[PATH_BYTES + 32];
    bool kept = true;
    while (kept && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        uint64_t hash = strtoull(line, &end, 16);
        line[strcspn(line, "\n")] = '\0';
        kept = *end != ' ' || add_entry(sealed, end + 1, hash);
    }
    (void)fclose(file);
}

static bool is_sealed(const struct entries *sealed, const struct entry *entry)
{
    for (size_t i = 0; i < sealed->count; i++) {
        if (strcmp(sealed->items[i].path, entry->path) == 0) {
            return sealed->items[i].hash == entry->hash;
        }
    }
    return false;
}

size_t cache_seal_verify(const char *directory)
{
    struct entries present = {0};
    struct entries sealed = {0};
    size_t removed = 0;
    read_seal(directory, &sealed);
    if (!collect(directory, hash_content, &present)) {
        present.count = 0;
        remove_tree(directory); /* what cannot be looked at cannot be trusted */
        removed = 1;
    }
    for (size_t i = 0; i < present.count; i++) {
        if (!is_sealed(&sealed, &present.items[i])) {
            char path[4200];
            (void)snprintf(path, sizeof path, "%s/%s", directory, present.items[i].path);
            remove_tree(path);
            removed++;
        }
    }
    free(present.items);
    free(sealed.items);
    return removed;
}

static bool write_entries(const char *path, const struct entries *entries)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return false;
    }
    for (size_t i = 0; i < entries->count; i++) {
        (void)fprintf(file, "%016" PRIx64 " %s\n", entries->items[i].hash,
                      entries->items[i].path);
    }
    bool failed = ferror(file) != 0;
    return fclose(file) == 0 && !failed;
}

bool cache_seal_write(const char *directory)
{
    char path[4200];
    char temporary[4300];
    (void)snprintf(path, sizeof path, "%s/%s", directory, seal_name);
    (void)snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    struct entries entries = {0};
    bool written = collect(directory, hash_content, &entries) &&
                   write_entries(temporary, &entries) && rename(temporary, path) == 0;
    free(entries.items);
    if (!written) {
        (void)unlink(temporary);
    }
    return written;
}

uint64_t cache_seal_stamp(const char *directory)
{
    struct entries entries = {0};
    uint64_t stamp = HASH_START;
    if (collect(directory, hash_times, &entries)) {
        for (size_t i = 0; i < entries.count; i++) {
            stamp = hash_bytes(stamp, &entries.items[i].hash, sizeof entries.items[i].hash);
        }
    }
    free(entries.items);
    return stamp;
}
