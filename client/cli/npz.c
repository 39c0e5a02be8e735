/* Archives: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, with the
 * fields of 64 bits that numpy writes always. The central directory at the end says where the
 * members are. */
#include "client/cli/npz.h"

#include "client/cli/terminal.h"
#include "proto/little_endian.h"
#include "proto/text.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    COMMENT_MOST = 65535,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    DIRECTORY_MOST = 16 << 20,
    EXTRA_64 = 1, /* the field that has what 32 bits do not hold */
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1,
    PACKED_BYTES = 64 << 10, /* read at a time */
    NAMES_TEXT = 512
};

static const char ending[] = ".npy";

struct npz_member {
    const char *name; /* borrowed, not terminated; without its ending */
    size_t name_bytes;
    unsigned flags;
    unsigned method;
    uint32_t crc;
    uint64_t packed_bytes;
    uint64_t bytes;
    uint64_t offset;
};

struct npz_stream {
    z_stream inflate;
    uint64_t at; /* of the packed bytes that come next, in the file */
    uint64_t packed_left;
    uint64_t left;
    uint32_t crc; /* of what came out */
    uint32_t told;
    unsigned char packed[PACKED_BYTES];
};

static int refuse_damaged(const struct source *source)
{
    return complain(EXIT_USAGE,
                    "%s is not an NPZ file that is understood: it is damaged, or was "
                    "not written by numpy",
                    source->name);
}

/* ---- the directory ---- */

/* Read it; *directory is the caller's. */
static int read_directory(struct source *source, char **directory, uint64_t *bytes)
{
    char tail[END_BYTES + COMMENT_MOST + LOCATOR_BYTES];
    char wide[END64_BYTES];
    const uint64_t have = source->bytes < sizeof tail ? source->bytes : sizeof tail;
    STEP(source_read(source, source->bytes - have, tail, have));
    int64_t end = (int64_t)have - END_BYTES;
    while (end >= 0 && memcmp(tail + end, "PK\5\6", 4) != 0) {
        end--;
    }
    if (end < 0) {
        return refuse_damaged(source);
    }
    *bytes = little_endian_load(tail + end + 12, 4);
    uint64_t offset = little_endian_load(tail + end + 16, 4);
    if (end >= LOCATOR_BYTES && memcmp(tail + end - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
        const uint64_t at = little_endian_load(tail + end - LOCATOR_BYTES + 8, 8);
        if (source->bytes < sizeof wide || at > source->bytes - sizeof wide) {
            return refuse_damaged(source);
        }
        STEP(source_read(source, at, wide, sizeof wide));
        *bytes = little_endian_load(wide + 40, 8);
        offset = little_endian_load(wide + 48, 8);
    }
    if (*bytes > DIRECTORY_MOST || offset > source->bytes || *bytes > source->bytes - offset) {
        return refuse_damaged(source);
    }
    *directory = malloc(*bytes + 1);
    if (*directory == NULL) {
        return complain_no_memory();
    }
    return source_read(source, offset, *directory, *bytes);
}

/* What 32 bits do not hold stands in a field of its own, in this order. */
static void read_extra(const char *extra, uint64_t count, struct npz_member *member)
{
    uint64_t *const wide[] = {&member->bytes, &member->packed_bytes, &member->offset};
    while (count >= 4) {
        uint64_t size = little_endian_load(extra + 2, 2);
        size = size < count - 4 ? size : count - 4;
        const char *at = extra + 4;
        for (int i = 0; little_endian_load(extra, 2) == EXTRA_64 && i < 3; i++) {
            if (*wide[i] == UINT32_MAX && extra + 4 + size >= at + 8) {
                *wide[i] = little_endian_load(at, 8);
                at += 8;
            }
        }
        extra += 4 + size;
        count -= 4 + size;
    }
}

/* The member at *at, which goes to the next one. False: there is none. */
static bool next_member(const char *directory, uint64_t bytes, uint64_t *at,
                        struct npz_member *member)
{
    if (directory == NULL || bytes - *at < ENTRY_BYTES ||
        memcmp(directory + *at, "PK\1\2", 4) != 0) {
        return false;
    }
    const char *entry = directory + *at;
    const uint64_t name = little_endian_load(entry + 28, 2);
    const uint64_t extra = little_endian_load(entry + 30, 2);
    const uint64_t whole = ENTRY_BYTES + name + extra + little_endian_load(entry + 32, 2);
    if (whole > bytes - *at) {
        return false;
    }
    *member = (struct npz_member){.name = entry + ENTRY_BYTES,
                                  .name_bytes = name,
                                  .flags = (unsigned)little_endian_load(entry + 8, 2),
                                  .method = (unsigned)little_endian_load(entry + 10, 2),
                                  .crc = (uint32_t)little_endian_load(entry + 16, 4),
                                  .packed_bytes = little_endian_load(entry + 20, 4),
                                  .bytes = little_endian_load(entry + 24, 4),
                                  .offset = little_endian_load(entry + 42, 4)};
    read_extra(entry + ENTRY_BYTES + name, extra, member);
    const size_t tail = sizeof ending - 1;
    if (name > tail && memcmp(member->name + name - tail, ending, tail) == 0) {
        member->name_bytes -= tail;
    }
    *at += whole;
    return true;
}

static bool is_named(const struct npz_member *member, const char *name)
{
    const size_t count = strlen(name);
    const size_t tail = sizeof ending - 1;
    const bool same =
        count >= member->name_bytes && memcmp(member->name, name, member->name_bytes) == 0;
    return same &&
           (count == member->name_bytes || (count == member->name_bytes + tail &&
                                            strcmp(name + member->name_bytes, ending) == 0));
}

/* The array of that name, or the only one. */
static int choose_member(const struct source *source, const char *directory, uint64_t bytes,
                         const char *name, struct npz_member *chosen)
{
    char names[NAMES_TEXT] = "";
    struct npz_member member;
    uint64_t at = 0;
    int count = 0;
    int found = 0;
    while (next_member(directory, bytes, &at, &member)) {
        text_append(names, sizeof names, "%s%.*s", count > 0 ? ", " : "",
                    (int)member.name_bytes, member.name);
        count++;
        if (name == NULL || is_named(&member, name)) {
            *chosen = member;
            found++;
        }
    }
    if (at != bytes) { /* what follows is no member: there may have been more */
        return refuse_damaged(source);
    }
    if (found == 1) {
        return EXIT_DONE;
    }
    if (count == 0) {
        return complain(EXIT_USAGE, "%s has no arrays in it", source->name);
    }
    if (name != NULL && found > 1) {
        return complain(EXIT_USAGE,
                        "%s has %d arrays of the name %s: save each under a name of its own",
                        source->name, found, name);
    }
    return name == NULL
               ? complain(EXIT_USAGE, "%s has %d arrays: choose one by --array NAME of %s",
                          source->name, count, names)
               : complain(EXIT_USAGE, "%s has no array %s: --array NAME is one of %s",
                          source->name, name, names);
}

/* ---- the array ---- */

static int open_packed(struct source *source, const struct npz_member *member, uint64_t at)
{
    struct npz_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || inflateInit2(&stream->inflate, -MAX_WBITS) != Z_OK) {
        free(stream);
        return complain_no_memory();
    }
    stream->at = at;
    stream->packed_left = member->packed_bytes;
    stream->left = member->bytes;
    stream->told = member->crc;
    source->npz = stream;
    source_as_stream(source);
    return EXIT_DONE;
}

static int open_member(struct source *source, const struct npz_member *member)
{
    char local[LOCAL_BYTES];
    if (source->bytes < sizeof local || member->offset > source->bytes - sizeof local) {
        return refuse_damaged(source);
    }
    STEP(source_read(source, member->offset, local, sizeof local));
    const uint64_t at = member->offset + sizeof local + little_endian_load(local + 26, 2) +
                        little_endian_load(local + 28, 2);
    if (memcmp(local, "PK\3\4", 4) != 0 || at > source->bytes ||
        member->packed_bytes > source->bytes - at ||
        (member->method == STORED && member->packed_bytes != member->bytes)) {
        return refuse_damaged(source);
    }
    if ((member->flags & ENCRYPTED) != 0 ||
        (member->method != STORED && member->method != DEFLATED)) {
        return complain(
            EXIT_USAGE,
            "%s is encrypted or packed in a way that numpy does not: save the array "
            "with numpy.save",
            source->name);
    }
    if (member->method == DEFLATED) {
        return open_packed(source, member, at);
    }
    source->base = at;
    source->bytes = member->bytes;
    return EXIT_DONE;
}

int npz_open(struct source *source, const char *name)
{
    char *directory = NULL;
    uint64_t bytes = 0;
    struct npz_member member = {.name = NULL};
    int status = read_directory(source, &directory, &bytes);
    if (status == EXIT_DONE) {
        status = choose_member(source, directory, bytes, name, &member);
    }
    if (status == EXIT_DONE) {
        status = open_member(source, &member);
    }
    free(directory);
    return status;
}

int npz_inflate(struct source *source, char *to, size_t room, size_t *got)
{
    struct npz_stream *stream = source->npz;
    z_stream *inflater = &stream->inflate;
    int code = Z_OK;
    const size_t step = (size_t)PACKED_BYTES * 4;
    const size_t most = room < step ? room : step;
    inflater->next_out = (Bytef *)to;
    inflater->avail_out = (uInt)most;
    while (code == Z_OK && inflater->avail_out == most) {
        if (inflater->avail_in == 0) {
            const size_t count = stream->packed_left < sizeof stream->packed
                                     ? (size_t)stream->packed_left
                                     : sizeof stream->packed;
            STEP(source_pread(source, stream->at, stream->packed, count));
            stream->at += count;
            stream->packed_left -= count;
            inflater->next_in = stream->packed;
            inflater->avail_in = (uInt)count;
        }
        code = inflate(inflater, Z_NO_FLUSH);
    }
    *got = most - inflater->avail_out;
    stream->crc = (uint32_t)crc32(stream->crc, (const Bytef *)to, (uInt)*got);
    const bool longer = *got > stream->left;
    stream->left -= longer ? 0 : *got;
    const bool wrong =
        code == Z_STREAM_END && (stream->left > 0 || stream->crc != stream->told);
    if (longer || wrong || (code != Z_OK && code != Z_STREAM_END)) {
        return complain(EXIT_USAGE,
                        "%s is damaged: the array does not unpack to what was packed",
                        source->name);
    }
    return EXIT_DONE;
}

void npz_close(struct source *source)
{
    if (source->npz != NULL) {
        (void)inflateEnd(&source->npz->inflate);
        free(source->npz);
        source->npz = NULL;
    }
}
