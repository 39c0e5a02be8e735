/* Formats are guessed with what the service looks at bodies with (proto/content_guess.h), and
 * arrays are measured as the service measures them, so that both see the same. */
#include "client/cli/format.h"

#include "client/cli/terminal.h"
#include "proto/content_guess.h"
#include "proto/json/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NPY_MAGIC_BYTES = 6,
    HINT_TEXT = 256
};

static const struct {
    const char *name;
    const char *endings[2];
    enum content_kind kind; /* of its first bytes */
} formats[] = {
    [FORMAT_NONE] = {"", {NULL, NULL}, CONTENT_UNKNOWN},
    [FORMAT_NPY] = {"npy", {".npy", NULL}, CONTENT_NPY},
    [FORMAT_RAW] = {"raw", {".bin", ".raw"}, CONTENT_UNKNOWN},
    [FORMAT_JSON] = {"json", {".json", NULL}, CONTENT_JSON},
    [FORMAT_TEXT] = {"text", {".txt", NULL}, CONTENT_UNKNOWN},
    [FORMAT_CSV] = {"csv", {".csv", NULL}, CONTENT_CSV},
};

enum format format_named(const char *name)
{
    for (size_t i = 0; name != NULL && i < ARRAY_COUNT(formats); i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return (enum format)i;
        }
    }
    return FORMAT_NONE;
}

enum format format_of_file(const char *name)
{
    const char *dot = name == NULL ? NULL : strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < ARRAY_COUNT(formats); i++) {
        for (size_t k = 0; k < 2 && formats[i].endings[k] != NULL; k++) {
            if (strcmp(formats[i].endings[k], dot) == 0) {
                return (enum format)i;
            }
        }
    }
    return FORMAT_NONE;
}

/* By at most `most` bytes. CONTENT_UNKNOWN also after complaining that it cannot be read. */
static enum content_kind guess_content(struct source *source, size_t most)
{
    char start[CONTENT_GUESS_BYTES];
    size_t count = 0;
    return source_start(source, start, most, &count) == EXIT_DONE ? content_guess(start, count)
                                                                  : CONTENT_UNKNOWN;
}

enum format format_of_content(struct source *source, bool described)
{
    /* A stream of numbers is not waited for any longer than an NPY file tells itself apart. */
    if (guess_content(source, described ? NPY_MAGIC_BYTES : CONTENT_GUESS_BYTES) ==
        CONTENT_NPY) {
        return FORMAT_NPY;
    }
    return described ? FORMAT_RAW : FORMAT_JSON;
}

/* What to do about it with this command, where the service has an advice of its own. */
static const char *const advices[] = {
    [CONTENT_JSON] = "give --format json",
    [CONTENT_NPY] = "give --format npy",
    [CONTENT_ZIP] =
        "save one array of it as NPY, numpy.save('x.npy', numpy.load('x.npz')['NAME'])",
    [CONTENT_GZIP] = "unpack it on the way, zcat FILE | tally cumsum",
    [CONTENT_PICKLE] = "save the array with numpy.save",
    [CONTENT_CSV] = "give --format csv, or text",
    [CONTENT_ARRAY_TEXT] = "write json.dumps(x.tolist()), or save it with numpy.save",
    [CONTENT_PYTHON] = "write it with json.dumps()",
    [CONTENT_FORM] = "write an array such as [[1,2],[3,4]]",
};

void format_hint(struct source *source, enum format format, char *text, size_t size)
{
    enum content_kind kind = guess_content(source, CONTENT_GUESS_BYTES);
    text[0] = '\0';
    if (kind == CONTENT_MARKED && format_is_text(format)) {
        return; /* text may have it */
    }
    if (kind != CONTENT_UNKNOWN && kind != formats[format].kind) {
        const char *own = (size_t)kind < ARRAY_COUNT(advices) ? advices[kind] : NULL;
        (void)snprintf(text, size, " looks like %s: %s", content_name(kind),
                       own != NULL ? own : content_advice(kind));
    }
}

static const char AN_ARRAY[] =
    "expected an array such as [[1,2],[3,4]]; what is not JSON needs "
    "its --format";

static int refuse_byte(const struct source *source, uint64_t at, char c, const char *why)
{
    char found[] = "'?'";
    char code[] = "0x00";
    found[1] = c;
    (void)snprintf(code, sizeof code, "0x%02X", (unsigned char)c);
    return complain(EXIT_USAGE, "%s: byte %" PRIu64 " is %s, %s", source->name, at + 1,
                    c > ' ' && c < 0x7F ? found : code, why);
}

int format_check_start(struct source *source)
{
    char start[CONTENT_GUESS_BYTES + 1] = "";
    char hint[HINT_TEXT];
    size_t count = 0;
    format_hint(source, FORMAT_JSON, hint, sizeof hint);
    if (hint[0] != '\0') {
        return complain(EXIT_USAGE, "%s%s", source->name, hint);
    }
    STEP(source_start(source, start, CONTENT_GUESS_BYTES, &count));
    size_t first = strspn(start, " \t\r\n");
    return first == count || start[first] == '[' || start[first] == '{'
               ? EXIT_DONE
               : refuse_byte(source, first, start[first], AN_ARRAY);
}

int format_check_array(const struct source *source)
{
    struct error err = ERROR_INIT;
    struct json_array array;
    size_t first = strspn(source->memory, " \t\r\n");
    if (source->memory[first] != '[') {
        return refuse_byte(source, first, source->memory[first], AN_ARRAY);
    }
    enum status status =
        json_tensor_measure(source->memory + first, source->bytes - first, NULL, &array, &err);
    if (status == STATUS_INVALID_JSON) {
        return complain(EXIT_USAGE,
                        "%s ends after %" PRIu64 " bytes inside an array: ']' is missing",
                        source->name, source->bytes);
    }
    if (status != STATUS_OK) {
        return EXIT_DONE; /* the server says what is wrong */
    }
    size_t end = first + array.cut.bytes;
    end += strspn(source->memory + end, " \t\r\n");
    return end == source->bytes ? EXIT_DONE
                                : refuse_byte(source, end, source->memory[end],
                                              "expected nothing behind the array");
}
