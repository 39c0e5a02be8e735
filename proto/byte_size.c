/* A whole number and its unit, from the table of units; and back, by the largest that fits. */
#include "proto/byte_size.h"

#include "proto/digits.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *suffix;
    uint64_t factor;
} suffixes[] = {
    {"", 1},         {"B", 1},          {"KiB", SIZE_KIB}, {"K", SIZE_KIB},   {"MiB", SIZE_MIB},
    {"M", SIZE_MIB}, {"GiB", SIZE_GIB}, {"G", SIZE_GIB},   {"TiB", SIZE_TIB}, {"T", SIZE_TIB},
};

/* The factor of a suffix, 0 if it is none. */
static uint64_t suffix_factor(const char *suffix)
{
    while (*suffix == ' ') {
        suffix++;
    }
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        if (strcasecmp(suffix, suffixes[i].suffix) == 0) {
            return suffixes[i].factor;
        }
    }
    return 0;
}

bool byte_size_read(const char *text, uint64_t *bytes)
{
    uint64_t number = 0;
    bool fits = false;
    size_t digits = digits_read(text, strlen(text), &number, &fits);
    uint64_t factor = suffix_factor(text + digits);
    if (digits == 0 || !fits || factor == 0 ||
        __builtin_mul_overflow(number, factor, &number)) {
        return false;
    }
    *bytes = number;
    return true;
}

void byte_size_text(uint64_t bytes, char *text, size_t room)
{
    static const struct {
        uint64_t factor;
        const char *unit;
    } units[] = {{SIZE_TIB, "TiB"}, {SIZE_GIB, "GiB"}, {SIZE_MIB, "MiB"}, {SIZE_KIB, "KiB"}};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        uint64_t factor = units[i].factor;
        if (bytes >= factor && bytes % factor == 0) {
            (void)snprintf(text, room, "%llu %s", (unsigned long long)(bytes / factor),
                           units[i].unit);
            return;
        }
        if (bytes >= 10 * SIZE_KIB && bytes >= factor) {
            (void)snprintf(text, room, "%.1f %s", (double)bytes / (double)factor,
                           units[i].unit);
            return;
        }
    }
    (void)snprintf(text, room, "%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
}

void byte_size_compared_text(uint64_t bytes, uint64_t limit, char *text, size_t room)
{
    uint64_t unit = SIZE_KIB;
    uint64_t apart = bytes > limit ? bytes - limit : limit - bytes;
    while (unit < SIZE_TIB && bytes / unit >= 1024) {
        unit *= 1024;
    }
    if (apart > 0 && apart < unit / 10) { /* one digit behind the point does not show it */
        (void)snprintf(text, room, "%llu bytes", (unsigned long long)bytes);
    } else {
        byte_size_text(bytes, text, room);
    }
}
