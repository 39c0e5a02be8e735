#include "tests/fuzz/wire_tensor.h"

#include "tests/fuzz/wire_server.h"

#include <stdlib.h>
#include <string.h>

static uint64_t tensor_product(const struct wire_tensor *tensor, int from, int to)
{
    uint64_t product = 1;
    for (int i = from; i < to; i++) {
        product *= tensor->sizes[i];
    }
    return product;
}

void wire_tensor_fill(struct wire_tensor *tensor, uint64_t seed)
{
    size_t bytes = dtype_info(tensor->dtype)->bytes;
    tensor->bytes = malloc(tensor->elements * bytes + 1);
    WIRE_REQUIRE(tensor->bytes != NULL);
    for (size_t i = 0; i < tensor->elements; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t value = seed >> 7;
        memcpy(tensor->bytes + i * bytes, &value, bytes);
    }
}

unsigned char *wire_tensor_sums(const struct wire_tensor *tensor)
{
    size_t bytes = dtype_info(tensor->dtype)->bytes;
    unsigned char *sums = malloc(tensor->elements * bytes + 1);
    WIRE_REQUIRE(sums != NULL);
    uint64_t length = tensor->sizes[tensor->axis];
    uint64_t inner = tensor_product(tensor, tensor->axis + 1, tensor->rank);
    for (size_t first = 0; first < tensor->elements; first++) {
        if (first / inner % length != 0) {
            continue; /* skip all but the first element of a line */
        }
        uint64_t sum = 0;
        for (uint64_t i = 0; i < length; i++) {
            size_t at = first + (tensor->reverse ? length - 1 - i : i) * inner;
            uint64_t value = 0;
            memcpy(&value, tensor->bytes + at * bytes, bytes);
            uint64_t shown = tensor->exclusive ? sum : sum + value;
            sum += value;
            memcpy(sums + at * bytes, &shown, bytes);
        }
    }
    return sums;
}

void wire_tensor_read(struct wire_tensor *tensor, struct wire_reader *params, size_t most,
                      bool empty)
{
    static const uint16_t sizes[] = {4,  1,   2,   3,   5,    7,    8,    16,
                                     33, 100, 256, 300, 1024, 1030, 4096, 0};
    tensor->dtype = (enum dtype)(wire_read_byte(params) % DTYPE_COUNT);
    uint8_t shape[3] = {wire_read_byte(params), wire_read_byte(params), wire_read_byte(params)};
    uint8_t flags = wire_read_byte(params);
    tensor->rank = 1 + shape[0] / 64 % WIRE_RANK;
    for (int i = 0; i < tensor->rank; i++) {
        tensor->sizes[i] = sizes[(i == 0   ? shape[0]
                                  : i == 1 ? shape[1]
                                           : shape[2] >> (i - 2)) %
                                 16];
        if (tensor_product(tensor, 0, i + 1) > most || (tensor->sizes[i] == 0 && !empty)) {
            tensor->sizes[i] = 1;
        }
    }
    tensor->elements = (size_t)tensor_product(tensor, 0, tensor->rank);
    tensor->exclusive = (flags & 1) != 0;
    tensor->reverse = (flags & 2) != 0;
    tensor->axis = (flags >> 2) % tensor->rank;
    tensor->negative_axis = (flags & 16) != 0;
}

int64_t wire_tensor_shown_axis(const struct wire_tensor *tensor)
{
    return tensor->negative_axis ? tensor->axis - tensor->rank : tensor->axis;
}

void wire_tensor_print_sizes(struct wire_text *text, const struct wire_tensor *tensor)
{
    for (int i = 0; i < tensor->rank; i++) {
        wire_text_print(text, "%s%llu", i > 0 ? "," : "", (unsigned long long)tensor->sizes[i]);
    }
}

void wire_tensor_print_numbers(struct wire_text *text, const struct wire_tensor *tensor)
{
    const struct dtype_info *info = dtype_info(tensor->dtype);
    wire_text_add(text, "[", 1);
    for (size_t i = 0; i < tensor->elements; i++) {
        uint64_t value = 0;
        memcpy(&value, tensor->bytes + i * info->bytes, info->bytes);
        int unused = 64 - 8 * (int)info->bytes;
        const char *comma = i > 0 ? "," : "";
        if (info->kind == DTYPE_KIND_UNSIGNED) {
            wire_text_print(text, "%s%llu", comma, (unsigned long long)value);
        } else if (info->kind == DTYPE_KIND_SIGNED) {
            wire_text_print(text, "%s%lld", comma,
                            (long long)((int64_t)(value << unused) >> unused));
        } else {
            wire_text_print(text, "%s%d.5", comma, (int)(value % 64));
        }
    }
    wire_text_add(text, "]", 1);
}

void wire_tensor_print_flags(struct wire_text *text, const struct wire_tensor *tensor)
{
    wire_text_print(text, "\"axis\":%lld,\"exclusive\":%s,\"reverse\":%s",
                    (long long)wire_tensor_shown_axis(tensor),
                    tensor->exclusive ? "true" : "false", tensor->reverse ? "true" : "false");
}
