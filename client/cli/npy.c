#include "client/cli/npy.h"

#include "proto/dtype.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[] = "\x93NUMPY";
enum {
    MAGIC_BYTES = 6
};

bool npy_is(const char *bytes, size_t count)
{
    return count >= MAGIC_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

bool shape_bytes(const struct number_list *shape, enum tally_dtype dtype, uint64_t *bytes)
{
    uint64_t total = tally_dtype_bytes(dtype);
    for (int i = 0; i < shape->count; i++) {
        if (__builtin_mul_overflow(total, (uint64_t)shape->numbers[i], &total)) {
            return false;
        }
    }
    *bytes = total;
    return true;
}

/* What follows "'key':" in the dictionary, NULL if it is not there. */
static const char *find_value(const char *dictionary, const char *key)
{
    const char *at = strstr(dictionary, key);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(key);
    at += strspn(at, " ");
    if (*at != ':') {
        return NULL;
    }
    at++;
    return at + strspn(at, " ");
}

static bool parse_descr(const char *value, struct npy_head *head)
{
    char quote = value[0];
    char name[4] = "";
    if ((quote != '\'' && quote != '"') || strlen(value) < 5 || value[4] != quote) {
        return false;
    }
    memcpy(name, value + 1, 3);
    head->plain = name[0] != '>';
    for (int type = 0; type < DTYPE_COUNT; type++) {
        const char *npy = dtype_info((enum dtype)type)->npy;
        if (npy != NULL && strcmp(npy + 1, name + 1) == 0) {
            head->dtype = (enum tally_dtype)type;
            return true;
        }
    }
    return false;
}

static bool parse_shape(const char *value, struct number_list *shape)
{
    shape->count = 0;
    if (*value != '(') {
        return false;
    }
    value++;
    for (;;) {
        value += strspn(value, " ,");
        if (*value == ')') {
            return true;
        }
        char *end = NULL;
        long long size = strtoll(value, &end, 10);
        if (end == value || size < 0 || shape->count == TALLY_MAX_RANK) {
            return false;
        }
        shape->numbers[shape->count++] = size;
        value = end;
    }
}

static enum npy_verdict parse_dictionary(const char *text, size_t count, struct npy_head *head)
{
    enum npy_verdict verdict = NPY_BAD;
    char *copy = malloc(count + 1);
    if (copy == NULL) {
        return NPY_BAD;
    }
    memcpy(copy, text, count);
    copy[count] = '\0';
    const char *descr = find_value(copy, "'descr'");
    const char *order = find_value(copy, "'fortran_order'");
    const char *shape = find_value(copy, "'shape'");
    if (descr != NULL && order != NULL && shape != NULL && parse_descr(descr, head) &&
        parse_shape(shape, &head->shape)) {
        if (strncmp(order, "True", 4) == 0) {
            head->plain = false;
        }
        verdict = NPY_OK;
    }
    free(copy);
    return verdict;
}

enum npy_verdict npy_parse(const char *bytes, size_t count, struct npy_head *head)
{
    const unsigned char *u = (const unsigned char *)bytes;
    if (memcmp(bytes, MAGIC, count < MAGIC_BYTES ? count : MAGIC_BYTES) != 0) {
        return NPY_BAD;
    }
    if (count < 12) {
        return NPY_MORE;
    }
    size_t start = u[6] == 1 ? 10 : 12;
    size_t length = u[8] + ((size_t)u[9] << 8);
    if (u[6] != 1) {
        length += ((size_t)u[10] << 16) + ((size_t)u[11] << 24);
    }
    if (u[6] < 1 || u[6] > 3 || length > NPY_HEAD_MAX - 12) {
        return NPY_BAD;
    }
    if (count < start + length) {
        return NPY_MORE;
    }
    head->bytes = start + length;
    return parse_dictionary(bytes + start, length, head);
}
