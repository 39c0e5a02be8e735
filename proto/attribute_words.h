/* Sentences of refusals that the service and libtally share: a fault that libtally finds
 * before sending is reported in the words of the service. Each macro is a format of printf();
 * the comment above each lists its arguments. Thread: any. */
#ifndef TALLY_PROTO_ATTRIBUTE_WORDS_H
#define TALLY_PROTO_ATTRIBUTE_WORDS_H

#include <inttypes.h>

/* Arguments: field, text found, list of known types. */
#define WORDS_OUTPUT_DTYPE_UNKNOWN "%s is '%.40s', expected one of %s"
/* Arguments: field, output type, element type, list of types that hold every element. */
#define WORDS_OUTPUT_DTYPE_NARROW                                                      \
    "%s is %s, but elements of %s have sums of %s: the output's type must hold every " \
    "element exactly"
/* Arguments: field, text found. */
#define WORDS_NAN                                                                           \
    "%s is '%.40s', expected propagate, zero (NaN counts as 0) or skip (the same, and the " \
    "sum at its place is NaN)"
/* Arguments: field, length of the text found and the text, expectation, type of the sums. */
#define WORDS_INITIAL "%s is '%.*s', expected %s: the sums are of type %s, and begin with it"
/* Arguments: index of the element (uint64_t), its byte. */
#define WORDS_BOOL                                                                            \
    "element %" PRIu64 " is the byte %d, expected 0 or 1: a bool is one byte; name the type " \
    "uint8 for other numbers"
#define WORDS_INCLUDE_INITIAL_EXCLUSIVE                                              \
    "include_initial and exclusive are both true: an exclusive sum begins with the " \
    "initial value already; leave include_initial out for n sums, or exclusive for n+1"
#define WORDS_INCLUDE_INITIAL_TOTALS \
    "totals have no sums before them: leave include_initial out"
/* Offsets. Arguments: field; then index (uint64_t), found and expected value (int64_t). */
#define WORDS_OFFSETS_NONE \
    "%s is empty, expected the beginning of each segment and then the size of the axis"
#define WORDS_OFFSETS_FIRST \
    "%s[0] is %" PRId64 ", expected 0: the first segment begins with the axis"
#define WORDS_OFFSETS_DECREASE                                                          \
    "%s[%" PRIu64 "] is %" PRId64 ", less than the offset before it, %" PRId64          \
    ": offsets never decrease, because each is the end of a segment and the beginning " \
    "of the next one"
#define WORDS_OFFSETS_BEYOND                                                       \
    "%s[%" PRIu64 "] is %" PRId64 ", beyond the axis, which has the size %" PRId64 \
    ": the last offset is that size"
#define WORDS_OFFSETS_LAST                                                                   \
    "%s[%" PRIu64 "], the last one, is %" PRId64 ", expected the size of the axis, %" PRId64 \
    ": the last segment ends with the axis"
#define WORDS_OFFSETS_PART                                                              \
    "a part ends where a segment ends, or is carried: leave offsets out, and send the " \
    "parts of each segment"

#endif
