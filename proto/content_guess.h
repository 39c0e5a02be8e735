/* A guess at the content of a body by its first bytes, for the refusal of a body whose content
 * differs from its Content-Type. The guess changes only the words of the refusal. A content
 * that is not recognised for certain is CONTENT_UNKNOWN. Failure modes: none. Thread: any. */
#ifndef TALLY_PROTO_CONTENT_GUESS_H
#define TALLY_PROTO_CONTENT_GUESS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    CONTENT_GUESS_BYTES = 256 /* bytes that the guess reads, at most */
};

#define CONTENT_UTF8_ADVICE "encode it as UTF-8, without a byte order mark"

/* clang-format off */
/*        kind         name of the content                           advice: how to send it */
#define CONTENT_TABLE(X)                                                                           \
        X(UNKNOWN,     "",                                           "")                           \
        X(JSON,        "JSON",                                                                     \
          "send it with Content-Type: application/json")                                           \
        X(NPY,         "an NPY file",                                                              \
          "send it to /v1/cumsum with Content-Type: application/x-npy (curl --data-binary @FILE "  \
          "-H 'Content-Type: application/x-npy')")                                                 \
        X(ZIP,         "a ZIP archive, such as an NPZ file of numpy.savez or an XLSX workbook",    \
          "save one array with numpy.save and send that to /v1/cumsum with Content-Type: "         \
          "application/x-npy, or save the sheet as CSV for the command tally cumsum")              \
        X(GZIP,        "gzip data",                                                                \
          "say Content-Encoding: gzip, or decompress it")                                              \
        X(PICKLE,      "a Python pickle",                                                          \
          "pickles are never read; save the array with numpy.save and send that to /v1/cumsum "    \
          "with Content-Type: application/x-npy")                                                  \
        X(CSV,         "CSV or other columns of numbers",                                          \
          "put the numbers into JSON, {\"data\": [[1,2],[3,4]]}, or save them with numpy.save and " \
          "send that to /v1/cumsum with Content-Type: application/x-npy")                          \
        X(ARRAY_TEXT,  "a printed array",                                                          \
          "send json.dumps({\"data\": x.tolist()}), or save it with numpy.save and send that to "  \
          "/v1/cumsum with Content-Type: application/x-npy")                                       \
        X(PYTHON,      "a printed Python dictionary",                                              \
          "write JSON: double quotes, true and false in small letters (Python: json.dumps(), or "  \
          "json= of requests)")                                                                    \
        X(FORM,        "the fields of a form",                                                     \
          "send a JSON object, {\"data\": [1,2,3]} (Python requests: json= instead of data=)")     \
        X(UTF16LE,     "text in UTF-16LE",                           CONTENT_UTF8_ADVICE)          \
        X(UTF16BE,     "text in UTF-16BE",                           CONTENT_UTF8_ADVICE)          \
        X(UTF32LE,     "text in UTF-32LE",                           CONTENT_UTF8_ADVICE)          \
        X(UTF32BE,     "text in UTF-32BE",                           CONTENT_UTF8_ADVICE)          \
        X(MARKED,      "UTF-8 text with a byte order mark",                                        \
          "save it without the mark")
/* clang-format on */

enum content_kind {
#define X(kind, name, advice) CONTENT_##kind,
    CONTENT_TABLE(X)
#undef X
};

enum content_kind content_guess(const void *bytes, size_t count);

/* Return true if the kind is a text with two or four bytes per character. */
bool content_is_wide(enum content_kind kind);

/* Return true if these first bytes of a file have no NUL and no line end: curl -d strips both
 * from a file. */
bool content_may_be_stripped(const void *bytes, size_t count);

/* Advice for a file that curl -d may have stripped. */
#define CONTENT_STRIPPED_ADVICE                                                     \
    "curl -d (--data) strips NUL bytes and line ends from a file: with curl, send " \
    "it by --data-binary @FILE"

/* Refusal of a content that is not JSON. Arguments: content_name(), content_advice(). */
#define CONTENT_NO_JSON "the body is not valid JSON: it looks like %s; %s"

/* Advice for a body with curl's default Content-Type. */
#define CONTENT_FORM_ADVICE                                                                    \
    "curl -d strips line ends from a file and sends it as application/x-www-form-urlencoded, " \
    "which is read as JSON: send it by --data-binary @FILE, with -H 'Content-Type: "           \
    "application/octet-stream' (raw bytes), application/x-npy or application/json"

/* Return true if CONTENT_FORM_ADVICE helps a client that sent these first bytes: the content is
 * not JSON, and content_advice() for its kind does not contain the same advice. */
bool content_needs_form_advice(const void *bytes, size_t count);

const char *content_name(enum content_kind kind);   /* "an NPY file" */
const char *content_advice(enum content_kind kind); /* how to send it to the service */

#endif
