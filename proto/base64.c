/* Four characters for three bytes; see base64.h. */
#include "proto/base64.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_size(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

void base64_encode(const unsigned char *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        const unsigned three = (unsigned)bytes[i] << 16 |
                               (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? (unsigned)bytes[i + 2] : 0);
        *text++ = alphabet[three >> 18];
        *text++ = alphabet[three >> 12 & 63];
        *text++ = left > 1 ? alphabet[three >> 6 & 63] : '=';
        *text++ = left > 2 ? alphabet[three & 63] : '=';
    }
}

/* Six bits, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static enum status no_base64(const char *field, size_t at, struct error *err)
{
    return error_set_field(err, STATUS_INVALID_DATA, field,
                           "%s is no base64 from its character %zu on: send the text that was "
                           "answered, unchanged (letters, digits, + and /, and = at its end)",
                           field, at);
}

enum status base64_decode(const char *field, const char *text, size_t text_bytes,
                          const struct parallel *parallel, unsigned char *bytes, size_t *count,
                          struct error *err)
{
    unsigned four = 0;
    unsigned digits = 0; /* of them */
    size_t made = 0;
    size_t at = 0;
    for (; at < text_bytes && text[at] != '='; at++) {
        at += text[at] == '\\' && at + 1 < text_bytes && text[at + 1] == '/';
        const int value = value_of(text[at]);
        if (value < 0) {
            return no_base64(field, at, err);
        }
        four = four << 6 | (unsigned)value;
        if (++digits == 4) {
            bytes[made++] = (unsigned char)(four >> 16);
            bytes[made++] = (unsigned char)(four >> 8);
            bytes[made++] = (unsigned char)four;
            four = 0;
            digits = 0;
            if (made % (PARALLEL_STEP_BYTES * 3) == 0 && !parallel_step(parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    const size_t padding = text_bytes - at;
    const unsigned spare = digits == 3 ? four & 3 : digits == 2 ? four & 15 : 0;
    if (padding != (4 - digits) % 4 || digits == 1 || spare != 0 ||
        (padding == 2 && text[at + 1] != '=')) {
        return no_base64(field, at, err);
    }
    if (digits == 3) {
        bytes[made++] = (unsigned char)(four >> 10);
        bytes[made++] = (unsigned char)(four >> 2);
    } else if (digits == 2) {
        bytes[made++] = (unsigned char)(four >> 4);
    }
    *count = made;
    return STATUS_OK;
}
