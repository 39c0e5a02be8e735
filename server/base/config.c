/* Parses the command line and the environment according to the table. Every row has a
 * descriptor with the offset, the type and the bounds of its field. The parser uses the
 * descriptors and knows few settings by name.
 *
 * environment -> command line -> unknown variables -> values of the machine
 *
 * Possible failures: an unknown flag or variable, a value that its row does not allow, no
 * memory. */
#include "server/base/config.h"

#include "kernels/machine.h"
#include "proto/byte_size.h"
#include "proto/digits.h"
#include "proto/macros.h"
#include "proto/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Upper bounds of defaults that depend on the machine. A number that the operator sets is used
 * as it is. */
enum {
    MOST_CPUS_FOUND = 256, /* the limit of --cpus, and of threads of Tally's own driver */
    /* 64 work threads parse text faster than several HTTP threads can read it */
    MOST_CODECS_FOUND = 64,
    MOST_LOOPS_FOUND = 4, /* more than four HTTP threads were not measured */
    MOST_CONNECTIONS_FOUND = 4096
};

/* The default of --max-connections depends on the available memory. */
enum {
    LEAST_CONNECTIONS_FOUND = 64,
    CONNECTION_BYTES = 128 << 10, /* a connection with an unread answer uses this much memory */
    CONNECTIONS_PART = 4 /* connections may use 1/4 of the memory; tensors use 1/2 by default */
};

const struct config_row config_rows[] = {
/* clang-format off */
#define GROUP(text) {.title = text},
#define X(name, kind, start, low, high, measure, text)                                          \
        {.field = #name, .offset = offsetof(struct config, name), .type = CONFIG_##kind,        \
         .initial = start, .min = low, .max = high, .unit = measure, .help = text},
    CONFIG_TABLE(GROUP, X)
#undef X
#undef GROUP
    /* clang-format on */
};

const size_t config_row_count = ARRAY_COUNT(config_rows);

const struct config_action_row config_actions[] = {
    {"--list-devices", "", CONFIG_LIST_DEVICES, "List the OpenCL devices and exit."},
    {"--print-config", "env", CONFIG_PRINT_ENV,
     "Print an environment file with every variable and its default, and exit."},
    {"--version", "", CONFIG_VERSION, "Print the version and exit."},
    {"--help", "", CONFIG_HELP, "Print the flags and exit."},
};

const size_t config_action_count = ARRAY_COUNT(config_actions);

/* Kubernetes sets these variables for a service `tally` or `tally-NAME` in the namespace of a
 * pod. An operator may set TALLY_PORT=8080 to choose the port; so TALLY_PORT is ignored only if
 * its value looks like an address. */
#define SERVICE_LINKS \
    "TALLY_*SERVICE_HOST TALLY_*SERVICE_PORT TALLY_*SERVICE_PORT_* TALLY_*PORT_[0-9]*"

const struct config_foreign_row config_foreign[] = {
    {"TALLY_URL TALLY_TOKEN", NULL,
     "Address and token of the server, for the clients: tally(1), libtally, the Python "
     "package."},
    {"TALLY_OPENCL_THREADS", NULL,
     "Threads of Tally's OpenCL driver in other programs. In tallyd these are --cpus."},
    {SERVICE_LINKS, NULL, "Set by Kubernetes for a service whose name begins with tally."},
    {"TALLY_*PORT", "*://*", "The same. Another value than an address is refused."},
    {"TALLY_TEST_* TALLY_NO_INSTALL", NULL, "For the tests and the build of Tally."},
};

const size_t config_foreign_count = ARRAY_COUNT(config_foreign);

/* ---- values ---- */

void config_flag_name(const char *field, char *text, size_t room)
{
    (void)snprintf(text, room, "--%s", field);
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '_') {
            *c = '-';
        }
    }
}

void config_variable_name(const char *field, char *text, size_t room)
{
    (void)snprintf(text, room, "TALLY_%s", field);
    for (char *c = text; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
}

void config_bounds(const struct config_row *row, char low[CONFIG_BOUND_BYTES],
                   char high[CONFIG_BOUND_BYTES])
{
    if (row->type == CONFIG_SIZE) {
        byte_size_text(row->min, low, CONFIG_BOUND_BYTES);
        byte_size_text(row->max, high, CONFIG_BOUND_BYTES);
    } else {
        (void)snprintf(low, CONFIG_BOUND_BYTES, "%llu", (unsigned long long)row->min);
        (void)snprintf(high, CONFIG_BOUND_BYTES, "%llu", (unsigned long long)row->max);
    }
}

static enum status set_number(const struct config_row *row, const char *source,
                              const char *text, uint64_t *value, struct error *err)
{
    const bool is_size = row->type == CONFIG_SIZE;
    uint64_t number = 0;
    if (!(is_size ? byte_size_read(text, &number)
                  : digits_are_all(text, strlen(text), &number))) {
        return error_set(err, STATUS_INVALID_REQUEST, "%s: \"%s\" is not %s", source, text,
                         is_size
                             ? "a number of bytes; write for example 65536, 64KiB, 512Mi or 4GB"
                             : "a whole number");
    }
    if (number < row->min || number > row->max) {
        char low[CONFIG_BOUND_BYTES];
        char high[CONFIG_BOUND_BYTES];
        config_bounds(row, low, high);
        return error_set(err, STATUS_INVALID_REQUEST, "%s: \"%s\" is not from %s to %s%s%s",
                         source, text, low, high, is_size ? "" : " ", is_size ? "" : row->unit);
    }
    *value = number;
    return STATUS_OK;
}

static bool parse_bool(const char *text, bool *value)
{
    *value = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    return *value || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static enum status set_choice(const struct config_row *row, const char *source,
                              const char *text, int *value, struct error *err)
{
    size_t length = strlen(text);
    int position = 0;
    for (const char *word = row->unit; *word != '\0'; position++) {
        size_t word_length = strcspn(word, "|");
        if (word_length == length && memcmp(word, text, length) == 0) {
            *value = position;
            return STATUS_OK;
        }
        word += word_length;
        word += *word == '|';
    }
    return error_set(err, STATUS_INVALID_REQUEST, "%s: \"%s\" is none of %s", source, text,
                     row->unit);
}

static enum status set_text(const struct config_row *row, const char *source, const char *text,
                            char **value, struct error *err)
{
    size_t length = strlen(text);
    if (length < row->min || length > row->max) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         length == 0 ? "%s: a text is needed" : "%s: the text is too long",
                         source);
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the configuration");
    }
    free(*value);
    *value = copy;
    return STATUS_OK;
}

/* Append the entries of a text. Commas separate the entries; blanks may follow a comma. */
static enum status extend_list(const struct config_row *row, const char *source,
                               const char *text, struct config_list *list, struct error *err)
{
    if (text[0] == '\0' && row->min == 0) {
        return STATUS_OK; /* the text has no entry */
    }
    for (;;) {
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        if (length == 0) {
            return error_set(err, STATUS_INVALID_REQUEST, "%s: an entry is empty", source);
        }
        if (list->count >= row->max || list->count >= CONFIG_LIST_MAX) {
            return error_set(err, STATUS_INVALID_REQUEST, "%s: more than %llu entries", source,
                             (unsigned long long)row->max);
        }
        char *copy = strndup(text, length);
        if (copy == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the configuration");
        }
        list->items[list->count++] = copy;
        if (text[length] == '\0') {
            return STATUS_OK;
        }
        text += length + 1;
    }
}

static enum status set_field(struct config *config, const struct config_row *row,
                             const char *source, const char *text, struct error *err)
{
    void *field = (char *)config + row->offset;
    switch (row->type) {
    case CONFIG_UINT:
    case CONFIG_SIZE:
        return set_number(row, source, text, field, err);
    case CONFIG_BOOL:
        return parse_bool(text, field)
                   ? STATUS_OK
                   : error_set(err, STATUS_INVALID_REQUEST,
                               "%s: \"%s\" is neither true nor false", source, text);
    case CONFIG_CHOICE:
        return set_choice(row, source, text, field, err);
    case CONFIG_TEXT:
        return set_text(row, source, text, field, err);
    case CONFIG_LIST:
        return extend_list(row, source, text, field, err);
    }
    return error_set(err, STATUS_INTERNAL, "%s has no type", source);
}

static void clear_field(struct config *config, const struct config_row *row)
{
    void *field = (char *)config + row->offset;
    if (row->type == CONFIG_TEXT) {
        char **text = field;
        free(*text);
        *text = NULL;
    } else if (row->type == CONFIG_LIST) {
        struct config_list *list = field;
        for (size_t i = 0; i < list->count; i++) {
            free(list->items[i]);
        }
        *list = (struct config_list){0};
    }
}

/* ---- flags and variables ---- */

enum {
    FLAG_BYTES = 64,
    /* room for the name of a variable; longer names are cut: no setting has such a name */
    VARIABLE_BYTES = 200
};

/* A command line and the position of its next word. */
struct arguments {
    int count;
    const char *const *words;
    int next;
};

/* Writes the name of a setting's flag, or of its variable. */
typedef void name_function(const char *field, char *text, size_t room);

/* Returns the row of the setting that has this name; NULL: there is none. */
static const struct config_row *find_row(name_function *name_of, const char *name)
{
    for (size_t i = 0; i < config_row_count; i++) {
        char known[FLAG_BYTES] = "";
        if (config_rows[i].field != NULL) {
            name_of(config_rows[i].field, known, sizeof known);
        }
        if (strcmp(known, name) == 0) {
            return &config_rows[i];
        }
    }
    return NULL;
}

/* Returns the most similar name of a setting. */
static struct suggestion suggest_setting(name_function *name_of, const char *name)
{
    struct suggestion suggestion = suggestion_for(name);
    for (size_t i = 0; i < config_row_count; i++) {
        char known[FLAG_BYTES];
        if (config_rows[i].field != NULL) {
            name_of(config_rows[i].field, known, sizeof known);
            suggestion_consider(&suggestion, known);
        }
    }
    return suggestion;
}

static enum status unknown_flag(const char *word, struct error *err)
{
    if (word[0] != '-') {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "\"%s\" is not a flag; tallyd --help lists them", word);
    }
    struct suggestion suggestion = suggest_setting(config_flag_name, word);
    for (size_t i = 0; i < config_action_count; i++) {
        suggestion_consider(&suggestion, config_actions[i].flag);
    }
    return error_set(err, STATUS_INVALID_REQUEST, "unknown flag %s%s", word,
                     suggestion.text[0] != '\0' ? suggestion.text
                                                : "; tallyd --help lists them");
}

/* Find the value of a flag: the text behind '=', or the next word. A boolean flag without a
 * value is true. */
static enum status flag_value(const struct config_row *row, const char *flag,
                              const char *inlined, struct arguments *arguments,
                              const char **value, struct error *err)
{
    bool given = false;
    const char *next =
        arguments->next < arguments->count ? arguments->words[arguments->next] : NULL;
    if (inlined != NULL) {
        *value = inlined;
    } else if (row->type == CONFIG_BOOL && (next == NULL || !parse_bool(next, &given))) {
        *value = "true";
    } else if (next != NULL) {
        *value = next;
        arguments->next++;
    } else {
        return error_set(err, STATUS_INVALID_REQUEST, "%s needs a value (%s)", flag, row->unit);
    }
    return STATUS_OK;
}

/* Handle a flag of config_actions and the argument that it needs. Returns false if the word is
 * not such a flag. */
static bool take_action(const char *word, struct arguments *arguments, struct config *config)
{
    const char *next =
        arguments->next < arguments->count ? arguments->words[arguments->next] : "";
    const char *flag = strcmp(word, "-h") == 0   ? "--help"
                       : strcmp(word, "-V") == 0 ? "--version"
                                                 : word;
    for (size_t i = 0; i < config_action_count; i++) {
        const struct config_action_row *row = &config_actions[i];
        bool alone = row->argument[0] == '\0';
        if (strcmp(flag, row->flag) == 0 && (alone || strcmp(next, row->argument) == 0)) {
            arguments->next += !alone;
            config->action = row->action;
            return true;
        }
    }
    return false;
}

static enum status parse_word(struct arguments *arguments, struct config *config, bool *cleared,
                              struct error *err)
{
    const char *word = arguments->words[arguments->next++];
    if (take_action(word, arguments, config)) {
        return STATUS_OK;
    }
    char flag[FLAG_BYTES * 4];
    const char *equals = strchr(word, '=');
    size_t length = equals == NULL ? strlen(word) : (size_t)(equals - word);
    (void)snprintf(flag, sizeof flag, "%.*s", length < 200 ? (int)length : 200, word);
    if (strcmp(flag, "--print-config") == 0) {
        return error_set(err, STATUS_INVALID_REQUEST, "%s prints one thing: write %s env", flag,
                         flag);
    }
    const struct config_row *row = find_row(config_flag_name, flag);
    if (row == NULL) {
        return unknown_flag(flag, err);
    }
    const char *value = NULL;
    TRY(flag_value(row, flag, equals == NULL ? NULL : equals + 1, arguments, &value, err));
    if (row->type == CONFIG_LIST && !cleared[row - config_rows]) {
        clear_field(config, row); /* the first flag replaces the default */
        cleared[row - config_rows] = true;
    }
    return set_field(config, row, flag, value, err);
}

/* Returns the value of an environment variable, NULL if it is unset. */
static const char *environment_value(const char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

/* Set every field from its variable or its default. */
static enum status read_environment(const char *const *environment, struct config *config,
                                    struct error *err)
{
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        if (row->field != NULL) {
            char name[FLAG_BYTES];
            config_variable_name(row->field, name, sizeof name);
            const char *value = environment_value(environment, name);
            TRY(set_field(config, row, name, value == NULL ? row->initial : value, err));
        }
    }
    return STATUS_OK;
}

/* True if another program defines the variable. */
static bool is_foreign(const char *variable, const char *value)
{
    for (size_t i = 0; i < config_foreign_count; i++) {
        const struct config_foreign_row *row = &config_foreign[i];
        const char *names = row->names;
        while (*names != '\0') {
            char pattern[FLAG_BYTES];
            const size_t length = strcspn(names, " ");
            (void)snprintf(pattern, sizeof pattern, "%.*s", (int)length, names);
            if (fnmatch(pattern, variable, 0) == 0 &&
                (row->value == NULL || fnmatch(row->value, value, 0) == 0)) {
                return true;
            }
            names += length + strspn(names + length, " ");
        }
    }
    return false;
}

static enum status unknown_variable(const char *variable, struct error *err)
{
    const struct suggestion suggestion = suggest_setting(config_variable_name, variable);
    return error_set(
        err, STATUS_INVALID_REQUEST,
        "unknown variable %s%s (--allow-unknown-env starts all the same)", variable,
        suggestion.text[0] != '\0' ? suggestion.text : "; tallyd --help lists the settings");
}

/* Refuse variables TALLY_... that neither a setting nor another program defines. */
static enum status check_environment(const char *const *environment, struct error *err)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        char variable[VARIABLE_BYTES];
        const size_t length = strcspn(*environment, "=");
        (void)snprintf(variable, sizeof variable, "%.*s",
                       (int)smaller_of(length, VARIABLE_BYTES), *environment);
        if (strncmp(variable, "TALLY_", 6) == 0 && (*environment)[length] == '=' &&
            find_row(config_variable_name, variable) == NULL &&
            !is_foreign(variable, *environment + length + 1)) {
            return unknown_variable(variable, err);
        }
    }
    return STATUS_OK;
}

/* Returns true if clients change the path before they request it, because a part of the path is
 * empty, "." or "..". RFC 3986, 6.2.2.3: "URI normalizers should remove dot-segments". */
static bool clients_shorten(const char *path)
{
    while (*path == '/') {
        const size_t part = strcspn(++path, "/");
        if (part == 0 || (part <= 2 && strspn(path, ".") == part)) {
            return true;
        }
        path += part;
    }
    return false;
}

/* Check that --base-path is a prefix that clients send unchanged. The service compares it byte
 * by byte with unescaped request paths, and writes it unescaped in front of links. */
static enum status check_base_path(const struct config *config, struct error *err)
{
    static const char unescaped[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789-._~!$&'()*+,;=:@/"; /* RFC 3986, 3.3 */
    const char *path = config->base_path;
    size_t bytes = strlen(path);
    if (bytes > 0 &&
        (path[0] != '/' || path[bytes - 1] == '/' || strspn(path, unescaped) < bytes)) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "--base-path: \"%.100s\" is no prefix of paths as URLs have them; "
                         "write it with a slash in front, none behind, and without escapes, "
                         "such as /tally",
                         path);
    }
    if (clients_shorten(path)) {
        return error_set(
            err, STATUS_INVALID_REQUEST,
            "--base-path: \"%.100s\" has a part that is empty, . or .., and "
            "clients shorten such a path before they ask for it; write it without, "
            "such as /tally",
            path);
    }
    return STATUS_OK;
}

enum status config_parse(int argc, const char *const *argv, const char *const *environment,
                         struct config *config, struct error *err)
{
    *config = (struct config){.action = CONFIG_RUN};
    bool cleared[ARRAY_COUNT(config_rows)] = {false};
    struct arguments arguments = {.count = argc, .words = argv, .next = 1};
    enum status status = read_environment(environment, config, err);
    while (status == STATUS_OK && arguments.next < argc) {
        status = parse_word(&arguments, config, cleared, err);
    }
    if (status == STATUS_OK) {
        status = check_base_path(config, err);
    }
    if (status == STATUS_OK && config->action == CONFIG_RUN && !config->allow_unknown_env) {
        status = check_environment(environment, err);
    }
    const uint64_t available = machine_available_bytes();
    if (config->memory_budget == 0) {
        config->memory_budget = available / 2;
    }
    if (config->max_connections == 0) {
        const uint64_t fit = available / CONNECTIONS_PART / CONNECTION_BYTES;
        config->max_connections =
            smaller_of(larger_of(fit, LEAST_CONNECTIONS_FOUND), MOST_CONNECTIONS_FOUND);
    }
    if (config->cpus == 0) {
        config->cpus = smaller_of(machine_cores(), MOST_CPUS_FOUND);
    }
    if (config->codec_threads == 0) {
        config->codec_threads = smaller_of(config->cpus, MOST_CODECS_FOUND);
    }
    if (config->http_loops == 0) {
        config->http_loops = smaller_of(config->cpus, MOST_LOOPS_FOUND);
    }
    return status;
}

void config_deinit(struct config *config)
{
    for (size_t i = 0; i < config_row_count; i++) {
        if (config_rows[i].field != NULL) {
            clear_field(config, &config_rows[i]);
        }
    }
}
