/* Lists of words against lists of devices and types. */
#include "server/device_select.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The next word of a comma-separated text, without spaces around it; false at the end. */
static bool next_word(const char **text, char *word, size_t room)
{
    const char *start = *text + strspn(*text, ", ");
    size_t length = strcspn(start, ",");
    *text = start + length;
    while (length > 0 && start[length - 1] == ' ') {
        length--;
    }
    (void)snprintf(word, room, "%.*s", length < room ? (int)length : (int)room - 1, start);
    return length > 0;
}

static bool contains(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

static bool matches(const char *word, size_t number, const struct scan_device_info *info)
{
    if (strcasecmp(word, "all") == 0) {
        return true;
    }
    if (strcasecmp(word, "cpu") == 0) {
        return info->kind == SCAN_DEVICE_CPU;
    }
    if (strcasecmp(word, "gpu") == 0) {
        return info->kind == SCAN_DEVICE_GPU;
    }
    if (strspn(word, "0123456789") == strlen(word)) {
        char digits[24];
        (void)snprintf(digits, sizeof digits, "%zu", number);
        return strcmp(word, digits) == 0;
    }
    return contains(info->name, word) || contains(info->platform, word) ||
           contains(info->vendor, word);
}

/* "0 (name), 1 (name)" */
static void describe(const struct scan_device_info *infos, size_t count, char *text,
                     size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < room; i++) {
        int written = snprintf(text + used, room - used, "%s%zu (%s)", i == 0 ? "" : ", ", i,
                               infos[i].name);
        used += written > 0 ? (size_t)written : 0;
    }
}

enum status device_select(const char *text, const struct scan_device_info *infos, size_t count,
                          bool *chosen, struct error *err)
{
    char word[256];
    bool any = false;
    memset(chosen, 0, count * sizeof *chosen);
    while (next_word(&text, word, sizeof word)) {
        any = true;
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            bool match = matches(word, i, &infos[i]);
            chosen[i] = chosen[i] || match;
            found = found || match;
        }
        if (!found) {
            char devices[300];
            describe(infos, count, devices, sizeof devices);
            return error_set(err, STATUS_NO_DEVICE,
                             "--devices: \"%.100s\" names no OpenCL device; there is %s", word,
                             devices);
        }
    }
    return any ? STATUS_OK
               : error_set(err, STATUS_INVALID_REQUEST,
                           "--devices names nothing; write all, cpu, gpu, numbers or names");
}

enum status device_select_dtypes(const char *text, unsigned *dtypes, struct error *err)
{
    char word[64];
    unsigned set = 0;
    while (next_word(&text, word, sizeof word)) {
        enum dtype dtype;
        if (strcmp(word, "all") == 0) {
            set = (1U << DTYPE_COUNT) - 1;
        } else if (dtype_find(DTYPE_FAMILY_NAME, word, strlen(word), &dtype)) {
            set |= 1U << dtype;
        } else if (strcmp(word, "none") != 0) {
            return error_set(err, STATUS_INVALID_REQUEST,
                             "--warm: \"%s\" is no element type; write names like float32, or "
                             "all or none",
                             word);
        }
    }
    *dtypes = set;
    return STATUS_OK;
}
