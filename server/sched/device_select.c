/* A list of words against a list of devices. */
#include "server/sched/device_select.h"

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

static bool is_number(const char *word)
{
    return strspn(word, "0123456789") == strlen(word);
}

/* "all" and the like, which name no device in particular. */
static bool is_general(const char *word)
{
    return strcasecmp(word, "all") == 0 || strcasecmp(word, "cpu") == 0 ||
           strcasecmp(word, "gpu") == 0;
}

/* Another driver's device for the processor that Tally's own driver has a device for, too. */
static bool is_second(const struct scan_device_info *info, bool own)
{
    return own && info->kind == SCAN_DEVICE_CPU && !info->built_in;
}

static bool matches(const char *word, size_t number, const struct scan_device_info *info,
                    bool own)
{
    if (strcasecmp(word, "all") == 0) {
        return !is_second(info, own);
    }
    if (strcasecmp(word, "cpu") == 0) {
        return info->kind == SCAN_DEVICE_CPU && !is_second(info, own);
    }
    if (strcasecmp(word, "gpu") == 0) {
        return info->kind == SCAN_DEVICE_GPU;
    }
    if (is_number(word)) {
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

/* The devices that one word names; false: none. A name that the processor has with every driver
 * (its model, say) means Tally's own. */
static bool choose(const char *word, const struct scan_device_info *infos, size_t count,
                   bool own, bool *chosen)
{
    bool found = false;
    bool found_own = false;
    for (size_t i = 0; i < count; i++) {
        bool match =
            matches(word, i, &infos[i], own) && !(found_own && is_second(&infos[i], own));
        chosen[i] = chosen[i] || match;
        found = found || match;
        found_own = found_own || (match && infos[i].built_in);
    }
    return found;
}

/* One driver for the processor. named: whether Tally's own was, other than by "all" and the
 * like. */
static enum status settle_own(const struct scan_device_info *infos, size_t count, bool named,
                              bool *chosen, struct error *err)
{
    bool second = false;
    for (size_t i = 0; i < count; i++) {
        second = second || (chosen[i] && is_second(&infos[i], true));
    }
    for (size_t i = 0; i < count && second; i++) {
        if (infos[i].built_in && chosen[i] && named) {
            return error_set(
                err, STATUS_INVALID_REQUEST,
                "--devices names the processor twice: by Tally's own driver and by "
                "another; choose one of them");
        }
        chosen[i] = chosen[i] && !infos[i].built_in;
    }
    return STATUS_OK;
}

enum status device_select(const char *text, const struct scan_device_info *infos, size_t count,
                          bool *chosen, struct error *err)
{
    char word[256];
    bool any = false;
    bool own = false;   /* Tally's own driver has a device */
    bool named = false; /* and it was named */
    memset(chosen, 0, count * sizeof *chosen);
    for (size_t i = 0; i < count; i++) {
        own = own || infos[i].built_in;
    }
    while (next_word(&text, word, sizeof word)) {
        any = true;
        if (!choose(word, infos, count, own, chosen)) {
            char devices[300];
            describe(infos, count, devices, sizeof devices);
            return error_set(err, STATUS_NO_DEVICE,
                             "--devices: \"%.100s\" names no OpenCL device; there is %s", word,
                             devices);
        }
        for (size_t i = 0; i < count; i++) {
            named = named || (infos[i].built_in && !is_general(word) &&
                              matches(word, i, &infos[i], own));
        }
    }
    if (!any) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "--devices names nothing; write all, cpu, gpu, numbers or names");
    }
    return own ? settle_own(infos, count, named, chosen, err) : STATUS_OK;
}
