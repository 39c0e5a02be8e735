/* The functions of the service (proto/content_guess.h, proto/json/tensor.h) guess contents and
 * measure arrays, so the command and the service agree. */
#include "client/cli/format.h"

#include "client/cli/terminal.h"
#include "proto/content_guess.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    NPY_MAGIC_BYTES = 6,
    HINT_TEXT = 256
};

static const struct {
    const char *endings[2];
    enum content_kind kind; /* guess from the first bytes */
} formats[] = {
    [FORMAT_NONE] = {{NULL, NULL}, CONTENT_UNKNOWN},
    [FORMAT_NPY] = {{".npy", NULL}, CONTENT_NPY},
    [FORMAT_RAW] = {{".bin", ".raw"}, CONTENT_UNKNOWN},
    [FORMAT_JSON] = {{".json", NULL}, CONTENT_JSON},
    [FORMAT_TEXT] = {{".txt", NULL}, CONTENT_UNKNOWN},
    [FORMAT_CSV] = {{".csv", NULL}, CONTENT_CSV},
};

enum format format_of_file(const char *name)
{
    const char *dot = name == NULL ? NULL : strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < ARRAY_COUNT(formats); i++) {
        for (size_t k = 0; k < 2 && formats[i].endings[k] != NULL; k++) {
            if (strcasecmp(formats[i].endings[k], dot) == 0) {
                return (enum format)i;
            }
        }
    }
    return FORMAT_NONE;
}

/* Guess the content from at most `most` bytes; CONTENT_UNKNOWN after a failed read, too. */
static enum content_kind guess_content(struct source *source, size_t most)
{
    char start[CONTENT_GUESS_BYTES];
    size_t count = 0;
    return source_start(source, start, most, &count) == EXIT_DONE ? content_guess(start, count)
                                                                  : CONTENT_UNKNOWN;
}

/* Return the index of the first control character other than blanks and line breaks; else
 * `count`. */
static size_t find_control(const char *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && ((unsigned char)bytes[i] >= ' ' ||
                         (bytes[i] != '\0' && strchr("\t\r\n", bytes[i]) != NULL))) {
        i++;
    }
    return i;
}

/* Advice for users of the command. NULL: the advice of the service (content_advice()). */
static const char *const advices[] = {
    [CONTENT_JSON] = "give --format json",
    [CONTENT_NPY] = "give --format npy",
    [CONTENT_ZIP] =
        "save an array, numpy.save('x.npy', numpy.load('x.npz')['NAME']), or the sheet as CSV",
    [CONTENT_GZIP] = "decompress it on the way, zcat FILE | tally cumsum",
    [CONTENT_PICKLE] = "save the array with numpy.save",
    [CONTENT_CSV] = "give --format text, or csv",
    [CONTENT_ARRAY_TEXT] = "write json.dumps(x.tolist()), or save it with numpy.save",
    [CONTENT_PYTHON] = "write it with json.dumps()",
    [CONTENT_FORM] = "write an array such as [[1,2],[3,4]]",
};

void format_hint(struct source *source, enum format format, char *text, size_t size)
{
    enum content_kind kind = guess_content(source, CONTENT_GUESS_BYTES);
    text[0] = '\0';
    if (kind == CONTENT_MARKED && format_is_text(format)) {
        return; /* text may have a byte order mark */
    }
    if (kind != CONTENT_UNKNOWN && kind != formats[format].kind) {
        const char *advice = (size_t)kind < ARRAY_COUNT(advices) ? advices[kind] : NULL;
        (void)snprintf(text, size, " looks like %s: %s", content_name(kind),
                       advice != NULL ? advice : content_advice(kind));
    }
}

static const char AN_ARRAY[] = "expected an array such as [[1,2],[3,4]]";
static const char ANY_FORMAT[] = "expected NPY, a JSON array such as [[1,2],[3,4]], or numbers "
                                 "in columns; other input needs "
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

/* Refuse input whose first bytes look like another content than JSON. */
static int check_kind(struct source *source)
{
    char hint[HINT_TEXT];
    format_hint(source, FORMAT_JSON, hint, sizeof hint);
    return hint[0] != '\0' ? complain(EXIT_USAGE, "%s%s", source->name, hint) : EXIT_DONE;
}

int format_of_content(struct source *source, bool described, enum format *format)
{
    char start[CONTENT_GUESS_BYTES + 1] = "";
    size_t count = 0;
    bool arrived = true;
    if (described) { /* the magic of NPY is enough; a stream may have few bytes */
        STEP(source_start(source, start, NPY_MAGIC_BYTES, &count));
        *format = content_guess(start, count) == CONTENT_NPY ? FORMAT_NPY : FORMAT_RAW;
        return EXIT_DONE;
    }
    while (source->stream && !source->ended && source->bytes < CONTENT_GUESS_BYTES &&
           strpbrk(start, "0123456789[{") == NULL) {
        STEP(source_more(source, CONTENT_GUESS_BYTES - source->bytes, -1, &arrived));
        memcpy(start, source->memory, source->bytes);
    }
    const uint64_t shown = smaller_of(source->bytes, CONTENT_GUESS_BYTES);
    STEP(source_start(source, start, shown, &count));
    const enum content_kind kind = content_guess(start, count);
    const size_t first = strspn(start, " \t\r\n");
    const bool json = kind == CONTENT_JSON || start[first] == '[' || start[first] == '{';
    const size_t control = find_control(start, count);
    const bool text = (kind == CONTENT_UNKNOWN || kind == CONTENT_MARKED) && control == count &&
                      strpbrk(start, "0123456789") != NULL;
    *format = kind == CONTENT_NPY           ? FORMAT_NPY
              : kind == CONTENT_CSV || text ? FORMAT_TEXT
                                            : FORMAT_JSON;
    if (*format != FORMAT_JSON || json || first == count) {
        return EXIT_DONE;
    }
    STEP(check_kind(source));
    const size_t odd = control < count ? control : first;
    return refuse_byte(source, odd, start[odd], ANY_FORMAT);
}

int format_load_json(struct source *source, size_t *first)
{
    char start[CONTENT_GUESS_BYTES + 1] = "";
    size_t count = 0;
    STEP(check_kind(source));
    STEP(source_start(source, start, CONTENT_GUESS_BYTES, &count));
    *first = strspn(start, " \t\r\n");
    if (*first < count && start[*first] != '[' && start[*first] != '{') {
        return refuse_byte(source, *first, start[*first], AN_ARRAY);
    }
    STEP(source_load(source));
    *first = strspn(source->memory, " \t\r\n");
    const char c = source->memory[*first];
    if (c == '\0' && *first == source->bytes) {
        return complain(EXIT_USAGE, "%s is empty; give numbers such as [[1,2],[3,4]]",
                        source->name);
    }
    return c == '[' || c == '{' ? EXIT_DONE : refuse_byte(source, *first, c, AN_ARRAY);
}

int format_measure_array(const struct source *source, size_t first, struct json_array *array)
{
    struct error err = ERROR_INIT;
    const enum status status =
        json_tensor_measure(source->memory + first, source->bytes - first, NULL, array, &err);
    if (status == STATUS_INVALID_JSON) {
        return complain(EXIT_USAGE,
                        "%s ends after %" PRIu64 " bytes inside an array: ']' is missing",
                        source->name, source->bytes);
    }
    if (status != STATUS_OK) {
        return complain(EXIT_USAGE, "%s: %s", source->name, err.detail);
    }
    size_t end = first + array->cut.bytes;
    end += strspn(source->memory + end, " \t\r\n");
    return end == source->bytes ? EXIT_DONE
                                : refuse_byte(source, end, source->memory[end],
                                              "expected nothing behind the array");
}
