/* Turns a fuzz input into a request. REQUIRE() is a check that is active in every build.
 *
 *     byte 0: answer format   query string up to a newline (raw, NPY)   body */
#ifndef TALLY_TESTS_FUZZ_FUZZ_INPUT_H
#define TALLY_TESTS_FUZZ_FUZZ_INPUT_H

#include "tests/unit/codec_run.h"

#define REQUIRE(condition)                                                        \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                              \
        }                                                                         \
    } while (0)

struct fuzz_input {
    enum codec_format answer_format;
    char query[RUN_QUERY_MAX];
    struct byte_view body;
};

__attribute__((unused)) static bool fuzz_split(const uint8_t *data, size_t size,
                                               bool with_query, struct fuzz_input *out)
{
    if (size == 0) {
        return false;
    }
    out->answer_format = (enum codec_format)(data[0] % 3);
    out->query[0] = '\0';
    size_t at = 1;
    if (with_query) {
        size_t length = 0;
        while (at < size && data[at] != '\n' && data[at] != '\0' &&
               length + 1 < RUN_QUERY_MAX) {
            out->query[length++] = (char)data[at++];
        }
        out->query[length] = '\0';
        at += at < size;
    }
    out->body = (struct byte_view){data + at, size - at};
    return true;
}

/* Check the invariants of every outcome. */
__attribute__((unused)) static void fuzz_check(const struct run *run)
{
    REQUIRE(run->status == run->err.status);
    REQUIRE(run->status == STATUS_OK || status_http(run->status) == 400 ||
            status_http(run->status) == 413 || run->status == STATUS_OUT_OF_MEMORY);
    REQUIRE(run->status == STATUS_OK || run->err.detail[0] != '\0');
    REQUIRE(run->status == STATUS_OK || run->body == NULL);
}

#endif
