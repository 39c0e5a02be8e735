/* From text to value, one function per type of the table. */
#include "server/base/config_value.h"

#include "proto/digits.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static const struct {
    const char *suffix;
    uint64_t factor;
} size_suffixes[] = {
    {"", 1},
    {"B", 1},
    {"KiB", CONFIG_KIB},
    {"K", CONFIG_KIB},
    {"MiB", CONFIG_MIB},
    {"M", CONFIG_MIB},
    {"GiB", CONFIG_GIB},
    {"G", CONFIG_GIB},
    {"TiB", CONFIG_TIB},
    {"T", CONFIG_TIB},
};

void config_size_text(uint64_t bytes, char *text, size_t room)
{
    static const struct {
        uint64_t factor;
        const char *unit;
    } units[] = {
        {CONFIG_TIB, "TiB"}, {CONFIG_GIB, "GiB"}, {CONFIG_MIB, "MiB"}, {CONFIG_KIB, "KiB"}};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        uint64_t factor = units[i].factor;
        if (bytes >= factor && bytes % factor == 0) {
            (void)snprintf(text, room, "%llu %s", (unsigned long long)(bytes / factor),
                           units[i].unit);
            return;
        }
        if (bytes >= 10 * CONFIG_KIB && bytes >= factor) {
            (void)snprintf(text, room, "%.1f %s", (double)bytes / (double)factor,
                           units[i].unit);
            return;
        }
    }
    (void)snprintf(text, room, "%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
}

/* The factor of a size suffix, 0 if it is none. */
static uint64_t suffix_factor(const char *suffix)
{
    while (*suffix == ' ') {
        suffix++;
    }
    for (size_t i = 0; i < ARRAY_COUNT(size_suffixes); i++) {
        if (strcasecmp(suffix, size_suffixes[i].suffix) == 0) {
            return size_suffixes[i].factor;
        }
    }
    return 0;
}

static enum status check_bounds(const struct config_row *row, const char *source,
                                const char *text, uint64_t value, struct error *err)
{
    if (value >= row->min && value <= row->max) {
        return STATUS_OK;
    }
    if (row->type == CONFIG_SIZE) {
        char low[32];
        char high[32];
        config_size_text(row->min, low, sizeof low);
        config_size_text(row->max, high, sizeof high);
        return error_set(err, STATUS_INVALID_REQUEST, "%s: \"%s\" is not from %s to %s", source,
                         text, low, high);
    }
    return error_set(err, STATUS_INVALID_REQUEST, "%s: \"%s\" is not from %llu to %llu %s",
                     source, text, (unsigned long long)row->min, (unsigned long long)row->max,
                     row->unit);
}

static enum status set_number(const struct config_row *row, const char *source,
                              const char *text, uint64_t *value, struct error *err)
{
    uint64_t number = 0;
    bool fits = false;
    size_t digits = digits_read(text, strlen(text), &number, &fits);
    uint64_t factor =
        row->type == CONFIG_SIZE ? suffix_factor(text + digits) : text[digits] == '\0';
    if (digits == 0 || !fits || factor == 0 ||
        __builtin_mul_overflow(number, factor, &number)) {
        return error_set(
            err, STATUS_INVALID_REQUEST, "%s: \"%s\" is not %s", source, text,
            row->type == CONFIG_SIZE
                ? "a number of bytes; write for example 65536, 64KiB, 512MiB or 4GiB"
                : "a whole number");
    }
    enum status status = check_bounds(row, source, text, number, err);
    if (status == STATUS_OK) {
        *value = number;
    }
    return status;
}

static enum status set_bool(const char *source, const char *text, bool *value,
                            struct error *err)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        return error_set(err, STATUS_INVALID_REQUEST, "%s: \"%s\" is neither true nor false",
                         source, text);
    }
    *value = yes;
    return STATUS_OK;
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

/* Append the entries of a comma-separated text. */
static enum status extend_list(const struct config_row *row, const char *source,
                               const char *text, struct config_list *list, struct error *err)
{
    for (;;) {
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

enum status config_set(struct config *config, const struct config_row *row, const char *source,
                       const char *text, struct error *err)
{
    void *field = (char *)config + row->offset;
    switch (row->type) {
    case CONFIG_UINT:
    case CONFIG_SIZE:
        return set_number(row, source, text, field, err);
    case CONFIG_BOOL:
        return set_bool(source, text, field, err);
    case CONFIG_CHOICE:
        return set_choice(row, source, text, field, err);
    case CONFIG_TEXT:
        return set_text(row, source, text, field, err);
    case CONFIG_LIST:
        return extend_list(row, source, text, field, err);
    }
    return error_set(err, STATUS_INTERNAL, "%s has no type", source);
}

void config_clear(struct config *config, const struct config_row *row)
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
