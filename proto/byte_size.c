/* A whole number and its unit, from the table of units; and back, by the largest that fits. */
#include "proto/byte_size.h"

#include "proto/digits.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    const char *brief;
    uint64_t factor;
} units[] = {{"TiB", "T", SIZE_TIB},
             {"GiB", "G", SIZE_GIB},
             {"MiB", "M", SIZE_MIB},
             {"KiB", "K", SIZE_KIB},
             {"B", "", 1}};

/* The factor of a suffix, 0 if it is none. */
static uint64_t suffix_factor(const char *suffix)
{
    while (*suffix == ' ') {
        suffix++;
    }
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        if (strcasecmp(suffix, units[i].name) == 0 || strcasecmp(suffix, units[i].brief) == 0) {
            return units[i].factor;
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
    for (size_t i = 0; units[i].factor > 1; i++) {
        uint64_t factor = units[i].factor;
        if (bytes >= factor && bytes % factor == 0) {
            (void)snprintf(text, room, "%llu %s", (unsigned long long)(bytes / factor),
                           units[i].name);
            return;
        }
        if (bytes >= 10 * SIZE_KIB && bytes >= factor) {
            (void)snprintf(text, room, "%.1f %s", (double)bytes / (double)factor,
                           units[i].name);
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
