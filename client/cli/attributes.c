/* The number reader of the service (proto/json/number_text.h) converts the initial value.
 * libtally checks which attributes may be combined. */
#include "client/cli/attributes.h"

#include "client/cli/terminal.h"
#include "proto/attribute_words.h"
#include "proto/json/number_text.h"

#include <string.h>

enum {
    SHOWN = 40 /* characters of a number that a complaint shows, at most */
};

static enum tally_dtype type_of_sums(const struct settings *settings, enum tally_dtype dtype)
{
    return settings->output_dtype > 0 ? (enum tally_dtype)(settings->output_dtype - 1)
           : dtype == TALLY_BOOL      ? TALLY_INT64
                                      : dtype;
}

bool attributes_need_float(const struct settings *settings)
{
    enum number_result result = NUMBER_OK;
    uint64_t bits = 0;
    const char *text = settings->initial;
    return dtype_is_float((enum dtype)type_of_sums(settings, TALLY_INT64)) ||
           (text != NULL && number_reader_of(DTYPE_I64)(text, text + strlen(text), &bits,
                                                        &result) != text + strlen(text));
}

static int read_initial(const char *text, enum tally_dtype dtype, uint64_t *bits)
{
    enum number_result result = NUMBER_SYNTAX;
    const size_t length = strlen(text);
    *bits = 0;
    const char *after = number_reader_of((enum dtype)dtype)(text, text + length, bits, &result);
    if ((after != NULL && after == text + length) ||
        number_special((enum dtype)dtype, text, length, bits)) {
        return EXIT_DONE;
    }
    const char *expected = result == NUMBER_FRACTION ? "a whole number"
                           : result == NUMBER_RANGE  ? "a number that this type holds"
                                                     : "a number";
    return complain(EXIT_USAGE, WORDS_INITIAL, "initial", (int)smaller_of(length, SHOWN), text,
                    expected, tally_dtype_name(dtype));
}

int attributes_read(const struct settings *settings, enum tally_dtype dtype,
                    struct attributes *attributes)
{
    static const int64_t sizes[] = {0};
    struct tally_error err;
    *attributes = (struct attributes){.scan = {.struct_size = sizeof(struct tally_scan),
                                               .dtype = dtype,
                                               .exclusive = settings->exclusive,
                                               .reverse = settings->reverse,
                                               .has_output_dtype = settings->output_dtype > 0,
                                               .output_dtype = type_of_sums(settings, dtype),
                                               .nan = settings->nan > 0
                                                          ? (enum tally_nan)(settings->nan - 1)
                                                          : TALLY_NAN_PROPAGATE,
                                               .include_initial = settings->include_initial},
                                      .sums = type_of_sums(settings, dtype)};
    const struct tally_scan scan = attributes_scan(attributes, 1, sizes, 0);
    if (tally_scan_bytes(&scan, NULL, NULL, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    if (settings->initial != NULL) {
        STEP(read_initial(settings->initial, attributes->sums, &attributes->initial));
        attributes->scan.initial = &attributes->initial;
    }
    attributes->scan.offsets = settings->offsets;
    attributes->scan.offset_count = settings->offset_count;
    return EXIT_DONE;
}

uint64_t attributes_extra_sums(const struct attributes *attributes)
{
    const struct tally_scan *scan = &attributes->scan;
    if (scan->include_initial == 0) {
        return 0;
    }
    return scan->offsets == NULL ? 1 : scan->offset_count - (scan->offset_count > 0);
}

struct tally_scan attributes_scan(const struct attributes *attributes, int rank,
                                  const int64_t *sizes, int64_t axis)
{
    struct tally_scan scan = attributes->scan;
    scan.rank = rank;
    scan.sizes = sizes;
    scan.axis = axis;
    return scan;
}
