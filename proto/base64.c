/* Encoding and decoding of Base64; see base64.h. */
#include "proto/base64.h"

#include "proto/json/doc.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";

size_t base64_size(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

void base64_encode(const unsigned char *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        unsigned three = (unsigned)bytes[i] << 16;
        three |= left > 1 ? (unsigned)bytes[i + 1] << 8 : 0;
        three |= left > 2 ? (unsigned)bytes[i + 2] : 0;
        for (unsigned digit = 0; digit < 4; digit++) {
            *text++ = alphabet[digit <= left ? three >> (18 - 6 * digit) & 63 : 64];
        }
    }
}

/* Return the six bits of a character, or -1 if it is not a Base64 digit. */
static int value_of(int c)
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
                           "%s is not base64 from its character %zu on: send the text that was "
                           "answered, unchanged (letters, digits, + and /, and = at its end)",
                           field, at);
}

enum status base64_decode(const char *field, struct json_cut text,
                          const struct parallel *parallel, unsigned char *bytes, size_t *count,
                          struct error *err)
{
    const size_t step = PARALLEL_STEP_BYTES;
    unsigned four = 0;
    unsigned digits = 0; /* number of digits read so far */
    size_t padding = 0;
    size_t made = 0;
    for (size_t at = 0; at < text.bytes;) {
        const size_t begin = at;
        const int c = text.text[at] == '\\' ? json_string_char(text.text, text.bytes, &at)
                                            : (unsigned char)text.text[at++];
        if (c == '=') {
            padding++;
            continue;
        }
        const int value = padding > 0 ? -1 : value_of(c);
        if (value < 0) {
            return no_base64(field, begin, err);
        }
        four = four << 6 | (unsigned)value;
        if (++digits == 4) {
            bytes[made++] = (unsigned char)(four >> 16);
            bytes[made++] = (unsigned char)(four >> 8);
            bytes[made++] = (unsigned char)four;
            four = 0;
            digits = 0;
            if (made % (3 * step) == 0 && !parallel_step(parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    const unsigned spare = digits == 3 ? four & 3 : digits == 2 ? four & 15 : 0;
    if (padding != (4 - digits) % 4 || digits == 1 || spare != 0) {
        return no_base64(field, text.bytes, err);
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
