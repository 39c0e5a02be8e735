/* Conversion of byte counts from and to text, by one table of units. */
#include "proto/byte_size.h"

#include "proto/digits.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    UNIT_NAMES = 2,
    WRITTEN_UNITS = 4 /* number of units used for output: the first rows, largest first */
};

static const struct {
    const char *names[UNIT_NAMES]; /* the first name is used for output */
    uint64_t factor;
} units[] = {{{"TiB", "Ti"}, SIZE_TIB},
             {{"GiB", "Gi"}, SIZE_GIB},
             {{"MiB", "Mi"}, SIZE_MIB},
             {{"KiB", "Ki"}, SIZE_KIB},
             {{"TB", "T"}, UINT64_C(1000000000000)},
             {{"GB", "G"}, UINT64_C(1000000000)},
             {{"MB", "M"}, UINT64_C(1000000)},
             {{"kB", "k"}, UINT64_C(1000)},
             {{"B", ""}, 1}};

/* Return the factor of a unit in upper or lower case, or 0 if the unit is unknown. */
static uint64_t unit_factor(const char *name)
{
    name += strspn(name, " ");
    for (size_t i = 0; i < ARRAY_COUNT(units) * UNIT_NAMES; i++) {
        if (strcasecmp(name, units[i / UNIT_NAMES].names[i % UNIT_NAMES]) == 0) {
            return units[i / UNIT_NAMES].factor;
        }
    }
    return 0;
}

bool byte_size_read(const char *text, uint64_t *bytes)
{
    uint64_t number = 0;
    bool fits = false;
    size_t digits = digits_read(text, strlen(text), &number, &fits);
    uint64_t factor = unit_factor(text + digits);
    if (digits == 0 || !fits || factor == 0 ||
        __builtin_mul_overflow(number, factor, &number)) {
        return false;
    }
    *bytes = number;
    return true;
}

void byte_size_text(uint64_t bytes, char *text, size_t room)
{
    for (size_t i = 0; i < WRITTEN_UNITS; i++) {
        uint64_t factor = units[i].factor;
        if (bytes >= factor && bytes % factor == 0) {
            (void)snprintf(text, room, "%llu %s", (unsigned long long)(bytes / factor),
                           units[i].names[0]);
            return;
        }
        if (bytes >= 10 * SIZE_KIB && bytes >= factor) {
            (void)snprintf(text, room, "%.1f %s", (double)bytes / (double)factor,
                           units[i].names[0]);
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
    if (apart > 0 && apart < unit / 10) { /* one decimal does not show the difference */
        (void)snprintf(text, room, "%llu bytes", (unsigned long long)bytes);
    } else {
        byte_size_text(bytes, text, room);
    }
}
