/* Horner's rule with a check for overflow. */
#include "proto/digits.h"

size_t digits_read(const char *text, size_t bytes, uint64_t *value, bool *fits)
{
    uint64_t sum = 0;
    bool overflow = false;
    size_t count = 0;
    for (; count < bytes && text[count] >= '0' && text[count] <= '9'; count++) {
        overflow |= __builtin_mul_overflow(sum, UINT64_C(10), &sum);
        overflow |= __builtin_add_overflow(sum, (uint64_t)(text[count] - '0'), &sum);
    }
    *value = sum;
    *fits = !overflow;
    return count;
}

bool digits_are_all(const char *text, size_t bytes, uint64_t *value)
{
    bool fits = false;
    return bytes > 0 && digits_read(text, bytes, value, &fits) == bytes && fits;
}

int hex_digit(char c)
{
    const int lower = c | 0x20;
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}
