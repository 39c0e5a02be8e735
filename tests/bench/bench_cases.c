/* The table of layouts. Each row has the element types and flags with which its layout is
 * measured. */
#include "tests/bench/bench_cases.h"

#include "proto/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define PLAIN         {NULL, 0, 0, NULL}
#define ORDER(text)   {text, 0, 0, NULL}
#define STEPPED(step) {NULL, step, 0, NULL}
#define PADDED(cells) {NULL, 0, cells, NULL}
#define ONCE(text)    {NULL, 0, 0, text}
#define PACKED(name, rank, sizes, axis)      {name, rank, sizes, axis, PLAIN, PLAIN, NULL, NULL}
#define LAID(name, rank, sizes, axis, in, out) {name, rank, sizes, axis, in, out, NULL, NULL}
#define S(...) {__VA_ARGS__}
static const struct layout layouts[] = {
    PACKED("rows of 4", 2, S(-1, 4), 1),         PACKED("rows of 16", 2, S(-1, 16), 1),
    PACKED("rows of 64", 2, S(-1, 64), 1),       PACKED("rows of 100", 2, S(-1, 100), 1),
    PACKED("rows of 256", 2, S(-1, 256), 1),     PACKED("rows of 1Ki", 2, S(-1, 1024), 1),
    PACKED("rows of 1001", 2, S(-1, 1001), 1),   PACKED("rows of 16Ki", 2, S(-1, 16384), 1),
    PACKED("rows of 1Mi", 2, S(-1, 1 << 20), 1), PACKED("one row", 1, S(-1), 0),
    PACKED("columns of 2", 2, S(-1, 2), 0),      PACKED("columns of 3", 2, S(-1, 3), 0),
    PACKED("columns of 7", 2, S(-1, 7), 0),      PACKED("columns of 16", 2, S(-1, 16), 0),
    PACKED("columns of 31", 2, S(-1, 31), 0),    PACKED("columns of 50", 2, S(-1, 50), 0),
    PACKED("columns of 64", 2, S(-1, 64), 0),    PACKED("columns of 200", 2, S(-1, 200), 0),
    PACKED("columns of 1Ki", 2, S(-1, 1024), 0), PACKED("columns of 1000", 2, S(-1, 1000), 0),
    PACKED("columns of 64Ki", 2, S(-1, 65536), 0),
    PACKED("short columns", 3, S(-1, 8, 1024), 1),
    PACKED("middle axis of 64x7", 3, S(-1, 64, 7), 1),
    PACKED("middle axis of 4x3", 3, S(-1, 4, 3), 1),
    LAID("every second element", 2, S(-1, 1024), 1, STEPPED(2), STEPPED(2)),
    LAID("every second line", 2, S(-1, 1024), 0, STEPPED(2), STEPPED(2)),
    LAID("every second element, packed", 2, S(-1, 1024), 1, STEPPED(2), PLAIN),
    LAID("every third line, packed", 2, S(-1, 1024), 0, STEPPED(3), PLAIN),
    LAID("padded rows", 2, S(-1, 1000), 1, PADDED(24), PADDED(24)),
    LAID("padded columns", 2, S(-1, 1000), 0, PADDED(24), PADDED(24)),
    LAID("transposed input, rows", 2, S(-1, 4096), 1, ORDER("10"), PLAIN),
    LAID("transposed input, columns", 2, S(-1, 4096), 0, ORDER("10"), PLAIN),
    LAID("transposed input, 1000 columns", 2, S(-1, 1000), 0, ORDER("10"), PLAIN),
    LAID("transposed output, rows", 2, S(-1, 4096), 1, PLAIN, ORDER("10")),
    LAID("transposed output, columns", 2, S(-1, 4096), 0, PLAIN, ORDER("10")),
    LAID("channels last to first", 3, S(-1, 64, 1024), 1, ORDER("021"), PLAIN),
    LAID("channels first to last", 3, S(-1, 64, 1024), 1, PLAIN, ORDER("021")),
    LAID("transposed around the axis", 3, S(64, -1, 256), 1, ORDER("210"), PLAIN),
    LAID("one row repeated", 2, S(-1, 1024), 0, ONCE("0"), PLAIN),
    LAID("one column repeated", 2, S(-1, 1024), 1, ONCE("1"), PLAIN),
    LAID("one column repeated, lines of 16", 2, S(-1, 16), 1, ONCE("1"), PLAIN),
    LAID("one line, every third element, packed", 1, S(-1), 0, STEPPED(3), PLAIN),
    LAID("four lines of one number each", 2, S(4, -1), 1, ONCE("1"), PLAIN),
};
#undef S
/* clang-format on */

int bench_parse_numbers(const char *text, int64_t least, int64_t numbers[3])
{
    int count = 0;
    for (const char *at = text; *at != '\0'; count++) {
        char *end = NULL;
        int64_t number = strtoll(at, &end, 10);
        if (end == at || number < least || count == 3) {
            return 0;
        }
        numbers[count] = number;
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

/* Flags and types of a layout. Unsigned integers are not measured, because they use the kernels
 * of signed integers. */
enum case_flag {
    EXCLUSIVE = 1,
    REVERSE = 2,
    APART = 4,
    QUICK = 8
};

static void add_case(struct bench_case cases[CASES_MAX], size_t *count,
                     const struct bench_case *c, int flags)
{
    if (*count < CASES_MAX) {
        struct bench_case *own = &cases[(*count)++];
        *own = *c;
        own->exclusive = (flags & EXCLUSIVE) != 0;
        own->reverse = (flags & REVERSE) != 0;
        own->apart = (flags & APART) != 0;
        own->quick = (flags & QUICK) != 0;
    }
}

static int quick_flag(const struct layout *layout)
{
    static const char *const brief[] = {"rows of 16",    "rows of 1001", "rows of 16Ki",
                                        "one row",       "columns of 3", "columns of 1000",
                                        "columns of 1Ki"};
    for (size_t k = 0; k < sizeof brief / sizeof *brief; k++) {
        if (strcmp(brief[k], layout->name) == 0) {
            return QUICK;
        }
    }
    return 0;
}

static void add_layout(struct bench_case cases[CASES_MAX], size_t *count,
                       const struct layout *layout)
{
    const struct bench_case usual = {layout, DTYPE_F32, .quick = false};
    add_case(cases, count, &usual, quick_flag(layout));
    add_case(cases, count, &usual, APART);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct bench_case other = {layout, (enum dtype)dtype, .quick = false};
        if (dtype != DTYPE_F32 && dtype_info(other.dtype)->kind != DTYPE_KIND_UNSIGNED) {
            add_case(cases, count, &other, 0);
        }
    }
    add_case(cases, count, &usual, EXCLUSIVE);
    add_case(cases, count, &usual, REVERSE);
    add_case(cases, count, &usual, EXCLUSIVE | REVERSE);
}

size_t bench_cases_make(const struct layout *shape, struct bench_case cases[CASES_MAX])
{
    size_t count = 0;
    if (shape->rank > 0) {
        const struct bench_case only = {shape, DTYPE_F32, .quick = false};
        add_case(cases, &count, &only, QUICK);
        return count;
    }
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        add_layout(cases, &count, &layouts[i]);
    }
    return count;
}

void bench_case_describe(const struct bench_case *c, char *text, size_t room)
{
    (void)snprintf(text, room, "%s, %s%s%s%s", c->layout->name, dtype_info(c->dtype)->name,
                   c->exclusive ? ", exclusive" : "", c->reverse ? ", reverse" : "",
                   c->apart ? ", apart" : "");
}

static int64_t at_least_1(int64_t step)
{
    return step > 1 ? step : 1;
}

/* Compute the strides of a side. Returns the number of elements that the side spans. A repeated
 * dimension counts with its full size. */
static int64_t lay_out(const struct side *side, const struct scan_desc *desc, int64_t *strides)
{
    int64_t stride = at_least_1(side->step);
    for (int i = desc->rank - 1; i >= 0; i--) {
        int d = side->order != NULL ? side->order[i] - '0' : i;
        bool once = side->once != NULL && strchr(side->once, '0' + d) != NULL;
        strides[d] = once ? 0 : stride;
        stride = stride * desc->sizes[d] + (i == desc->rank - 1 ? side->pad : 0);
    }
    return stride;
}

bool bench_case_desc(const struct bench_case *c, size_t bytes, struct scan_desc *found)
{
    const struct layout *l = c->layout;
    struct scan_desc desc = {.dtype = c->dtype,
                             .rank = l->rank,
                             .axis = l->axis,
                             .exclusive = c->exclusive,
                             .reverse = c->reverse};
    int open = -1;
    for (int d = 0; d < l->rank; d++) {
        open = l->sizes[d] < 0 ? d : open;
        desc.sizes[d] = l->sizes[d] < 0 ? 1 : l->sizes[d];
    }
    int64_t in = lay_out(&l->in, &desc, desc.strides);
    int64_t out = lay_out(&l->out, &desc, desc.output_strides);
    if (open >= 0) {
        int64_t room = (int64_t)(bytes / dtype_info(c->dtype)->bytes);
        desc.sizes[open] = room / (in > out ? in : out);
        if (desc.sizes[open] == 0) {
            return false;
        }
        (void)lay_out(&l->in, &desc, desc.strides);
        (void)lay_out(&l->out, &desc, desc.output_strides);
    }
    if (l->strides != NULL) {
        memcpy(desc.strides, l->strides, sizeof l->sizes);
    }
    if (l->output_strides != NULL) {
        memcpy(desc.output_strides, l->output_strides, sizeof l->sizes);
    }
    desc.has_strides = true;
    desc.has_output_strides = true;
    *found = desc;
    return true;
}
