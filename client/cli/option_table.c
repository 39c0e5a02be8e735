/* The tables of options and commands. A new option needs a row here and a field of struct
 * settings. */
#include "client/cli/option_table.h"

#include "proto/dtype.h"
#include "proto/macros.h"

#include <string.h>

enum {
    ON_CUMSUM = 1 << COMMAND_CUMSUM,
    ON_INFO = 1 << COMMAND_DEVICES | 1 << COMMAND_HEALTH | 1 << COMMAND_VERSION,
    ON_SERVER = ON_CUMSUM | ON_INFO,
    ON_CONSOLE = 1 << COMMAND_CONSOLE,
    ON_ALL = (1 << COMMAND_COUNT) - 1
};

/* The names of types, in the order of enum tally_dtype: TYPES for sums, INPUT_TYPES for
 * elements. [1] skips the first blank. */
#define TYPE_NAME(symbol, bytes, kind, exponent, name, ...) " " name

#define TYPES       &(DTYPE_TABLE(TYPE_NAME))[1]
#define INPUT_TYPES &(DTYPE_TABLE(TYPE_NAME) " bool")[1]
#define FORMATS     "npy raw json text csv" /* in the order of enum format */
#define AT(field)   offsetof(struct settings, field)
#define ANY         0, 0

/* Bounds of a time in seconds. Less than a millisecond would be rounded to 0, which means no
 * limit. */
#define TIME 0.001, 1e9

/* clang-format off */
const struct option_row option_rows[] = {
    {"output", 'o', OPTION_FILE, "FILE", NULL, AT(output), ANY, ON_CUMSUM,
     "write the result there; - or nothing: standard output"},
    {"axis", 'a', OPTION_INTEGER, "N", NULL, AT(axis), ANY, ON_CUMSUM,
     "dimension to sum along, negative from the last (default 0)"},
    {"exclusive", 0, OPTION_FLAG, NULL, NULL, AT(exclusive), ANY, ON_CUMSUM,
     "exclude each element from the sum at its index"},
    {"reverse", 0, OPTION_FLAG, NULL, NULL, AT(reverse), ANY, ON_CUMSUM,
     "sum from the last element towards the first"},
    {"output-dtype", 0, OPTION_CHOICE, "TYPE", TYPES, AT(output_dtype), ANY, ON_CUMSUM,
     "type of the sums; it must hold every element exactly (default: that of the input; bool: int64)"},
    {"nan", 0, OPTION_CHOICE, "MODE", "propagate zero skip", AT(nan), ANY, ON_CUMSUM,
     "zero: count a NaN as 0; skip: also print NaN in its place; NA and empty fields are NaN"},
    {"initial", 0, OPTION_TEXT, "NUMBER", NULL, AT(initial), ANY, ON_CUMSUM,
     "number added before the first element of every line, in the type of the sums"},
    {"include-initial", 0, OPTION_FLAG, NULL, NULL, AT(include_initial), ANY, ON_CUMSUM,
     "print one more sum along the axis, before the first element: --initial or 0"},
    {"offsets", 0, OPTION_FILE, "FILE", NULL, AT(offsets_file), ANY, ON_CUMSUM,
     "sum segments of the axis separately; FILE is NPY of int64, or text with an integer on each line"},
    {"dtype", 'd', OPTION_CHOICE, "TYPE", INPUT_TYPES, AT(dtype), ANY, ON_CUMSUM,
     "element type, also as f4, <f4, double, FP32, F32; needed for raw input"},
    {"shape", 's', OPTION_LIST, "N,N,...", NULL, AT(shape), ANY, ON_CUMSUM,
     "sizes of the dimensions, outermost first; needed for raw input"},
    {"strides", 0, OPTION_LIST, "N,N,...", NULL, AT(strides), ANY, ON_CUMSUM,
     "layout of raw or flat JSON input, in elements"},
    {"output-strides", 0, OPTION_LIST, "N,N,...", NULL, AT(output_strides), ANY, ON_CUMSUM,
     "layout of the result of raw or flat JSON input, in elements"},
    {"format", 'f', OPTION_CHOICE, "F", FORMATS, AT(format), ANY, ON_CUMSUM,
     "format of the input (default: by the file name, else by the first bytes)"},
    {"output-format", 'F', OPTION_CHOICE, "F", FORMATS, AT(output_format), ANY, ON_CUMSUM,
     "format of the result (default: by the file name, else that of the input)"},
    {"deadline", 0, OPTION_NUMBER, "SECONDS", NULL, AT(deadline_s), TIME, ON_CUMSUM,
     "the server drops a request that is queued for longer"},
    {"columns", 0, OPTION_TEXT, "LIST", NULL, AT(columns), ANY, ON_CUMSUM,
     "columns of text or CSV to sum, by numbers from 1 or names: 2,5; other columns are copied"},
    {"header", 0, OPTION_FLAG, NULL, NULL, AT(header), ANY, ON_CUMSUM,
     "the first line of text or CSV is a header, even without letters"},
    {"delimiter", 0, OPTION_TEXT, "C", NULL, AT(delimiter), ANY, ON_CUMSUM,
     "character between the fields of text or CSV (default: that of the first line)"},
    {"decimal", 0, OPTION_CHOICE, "C", ". ,", AT(decimal), ANY, ON_CUMSUM,
     "decimal sign of the numbers of text or CSV (default: .)"},
    {"part-bytes", 0, OPTION_SIZE, "SIZE", NULL, AT(part_bytes), 1, 1 << 30, ON_CUMSUM,
     "size of the parts in which larger input is sent, at most 1GiB (default 64MiB)"},
    {"flush-ms", 0, OPTION_INTEGER, "N", NULL, AT(flush_ms), 0, 1e6, ON_CUMSUM,
     "print the sums of each line of a pipe within N milliseconds (default 100)"},

    {"json", 0, OPTION_FLAG, NULL, NULL, AT(json), ANY, ON_INFO,
     "print JSON for programs"},

    {"url", 'u', OPTION_TEXT, "URL", NULL, AT(url), ANY, ON_CUMSUM | ON_INFO | ON_CONSOLE,
     "server: http(s)://host:port or unix:/path (default: $TALLY_URL, else "
     "http://127.0.0.1:8000)"},
    {"timeout", 0, OPTION_NUMBER, "SECONDS", NULL, AT(timeout_s), TIME, ON_SERVER,
     "limit for a call with its retries (default 600; health 10)"},
    {"retries", 0, OPTION_INTEGER, "N", NULL, AT(retries), 0, 1000, ON_CUMSUM | ON_INFO,
     "further attempts if the server is busy or a connection breaks (default 4)"},
    {"token-file", 0, OPTION_FILE, "FILE", NULL, AT(token_file), ANY, ON_SERVER,
     "file whose first line is the bearer token (default: $TALLY_TOKEN, else none)"},
    {"cacert", 0, OPTION_FILE, "FILE", NULL, AT(ca_file), ANY, ON_SERVER,
     "CA certificates in PEM, instead of the system's"},
    {"cert", 0, OPTION_FILE, "FILE", NULL, AT(client_cert), ANY, ON_SERVER,
     "certificate of this client in PEM, for servers that require one"},
    {"key", 0, OPTION_FILE, "FILE", NULL, AT(client_key), ANY, ON_SERVER,
     "private key of --cert in PEM"},
    {"insecure", 'k', OPTION_FLAG, NULL, NULL, AT(insecure), ANY, ON_SERVER,
     "do not verify the server's certificate"},
    {"scopes", 0, OPTION_TEXT, "LIST", NULL, AT(scopes), ANY, 1U << COMMAND_TOKEN,
     "scopes of the token: infer, metrics, admin, separated by commas (default infer)"},
    {"quiet", 'q', OPTION_FLAG, NULL, NULL, AT(quiet), ANY, ON_CUMSUM,
     "no progress bar"},
    {"help", 'h', OPTION_FLAG, NULL, NULL, AT(help), ANY, ON_ALL, "show this help"},
    {"version", 'V', OPTION_FLAG, NULL, NULL, AT(version), ANY, 0, "print the version"},
};

const struct command_row command_rows[COMMAND_COUNT] = {
    [COMMAND_CUMSUM] = {
        "cumsum", "[INPUT]", "<file>", "compute the cumulative sum of a tensor",
        "INPUT is an NPY, raw, JSON, text or CSV file; - or nothing: standard input.\n"
        "  tally cumsum in.npy -o out.npy --axis 1\n"
        "  tally cumsum in.bin -o out.bin --dtype float32 --shape 1000,1000 --axis -1\n"
        "  echo '[[1,2],[3,4]]' | tally cumsum --axis 1\n"
        "  seq 1 10 | tally cumsum\n"
        "  tally cumsum sales.csv --columns price,tax\n"
        "  zcat readings.csv.gz | tally cumsum -f csv\n"},
    [COMMAND_DEVICES] = {
        "devices", "", NULL, "list the devices of the server", ""},
    [COMMAND_HEALTH] = {
        "health", "", NULL, "show whether the server is alive and ready",
        "Exit status: 0 the server is ready, 4 it is alive but not ready, 3 it cannot be reached.\n"},
    [COMMAND_VERSION] = {
        "version", "", NULL, "show the versions of this program and of the server", ""},
    [COMMAND_CONSOLE] = {
        "console", "", NULL, "open the console of the server in a browser",
        "The command prints the address, and opens it with xdg-open if that is installed.\n"},
    [COMMAND_TOKEN] = {
        "token", "new NAME", "new", "make a token for a server that requires tokens",
        "The line for the server's --token-file is printed on standard output, the token on\n"
        "standard error. The token is not stored.\n"
        "  tally token new ci --scopes infer,metrics >>tokens\n"},
    [COMMAND_COMPLETION] = {
        "completion", "SHELL", "bash zsh fish",
        "print the completion script for a shell",
        "  eval \"$(tally completion bash)\"\n"
        "  tally completion fish | source\n"},
};
/* clang-format on */

const size_t option_row_count = ARRAY_COUNT(option_rows);

const struct option_row *option_named(const char *name, size_t count)
{
    const struct option_row *found = NULL;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (strncmp(row->name, name, count) == 0 &&
            (found == NULL || row->name[count] == '\0')) {
            found = row;
        }
    }
    return found;
}

const struct option_row *option_lettered(char letter)
{
    size_t i = 0;
    while (i < option_row_count && (letter == '\0' || option_rows[i].letter != letter)) {
        i++;
    }
    return i < option_row_count ? &option_rows[i] : NULL;
}

enum command_id command_named(const char *name)
{
    int i = 0;
    while (i < COMMAND_COUNT && strcmp(command_rows[i].name, name) != 0) {
        i++;
    }
    return (enum command_id)i;
}
