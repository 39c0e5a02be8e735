#include "client/cli/inspect.h"

#include "client/cli/terminal.h"
#include "proto/content_guess.h"
#include "proto/json/tensor.h"

#include <inttypes.h>
#include <string.h>

/* What to do about it with this command; the service has an advice of its own. */
static const char *advice(enum content_kind kind)
{
    switch (kind) {
    case CONTENT_JSON:
        return "give --format json";
    case CONTENT_NPY:
        return "give --format npy";
    case CONTENT_ZIP:
        return "save one array with numpy.save";
    case CONTENT_GZIP:
        return "gunzip it first";
    case CONTENT_PICKLE:
        return "save the array with numpy.save";
    case CONTENT_CSV:
        return "write the numbers as [[1,2],[3,4]], or save them with numpy.save";
    case CONTENT_ARRAY_TEXT:
        return "write json.dumps(x.tolist()), or save it with numpy.save";
    case CONTENT_PYTHON:
        return "write it with json.dumps()";
    case CONTENT_FORM:
        return "write an array such as [[1,2],[3,4]]";
    case CONTENT_UTF16:
    case CONTENT_MARKED:
    case CONTENT_UNKNOWN:
        break;
    }
    return content_advice(kind);
}

void inspect_hint(struct source *source, enum format format, char *text, size_t size)
{
    static const enum content_kind own[] = {[FORMAT_NONE] = CONTENT_UNKNOWN,
                                            [FORMAT_NPY] = CONTENT_NPY,
                                            [FORMAT_RAW] = CONTENT_UNKNOWN,
                                            [FORMAT_JSON] = CONTENT_JSON};
    char start[CONTENT_GUESS_BYTES];
    size_t count = source->bytes < sizeof start ? (size_t)source->bytes : sizeof start;
    text[0] = '\0';
    if (source_read(source, 0, start, count) != 0) {
        return;
    }
    enum content_kind kind = content_guess(start, count);
    if (kind != CONTENT_UNKNOWN && kind != own[format]) {
        (void)snprintf(text, size, " looks like %s: %s", content_name(kind), advice(kind));
    }
}

static int misplaced(const struct source *source, uint64_t at, const char *why)
{
    char c = source->memory[at];
    return complain(EXIT_USAGE, "%s: byte %" PRIu64 " is '%c', %s", source->name, at + 1,
                    c > ' ' && c < 0x7F ? c : '?', why);
}

int inspect_array(const struct source *source)
{
    struct error err = ERROR_INIT;
    struct json_array array;
    size_t first = strspn(source->memory, " \t\r\n");
    if (source->memory[first] != '[') {
        return misplaced(source, first, "expected an array such as [[1,2],[3,4]]");
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
                                : misplaced(source, end, "expected nothing behind the array");
}
