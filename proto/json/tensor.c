/* The second pass over a JSON array, which converts its numbers, and printing.
 *
 * Reading alternates between an element and the text behind it (next_element()): closing
 * brackets, then a comma. No byte needs a bounds check, because the text ends in ',' or ']'.
 * Printing is the reverse. Both convert a long array in pieces that run in parallel, one round
 * of pieces at a time; however long the text, a piece and the work between rounds are short.
 *
 * Possible failures: an element is not a number, out of range or not an integer
 * (element_error()); something other than ',' or ']' follows one (separator_error()); the
 * number of elements differs from the measured one (count_error()); nobody waits for the
 * result (parallel_given_up()). Each error names the element. Printing fails only for lack of
 * memory. */
#include "proto/json/tensor.h"

#include "proto/json/number_text.h"
#include "proto/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    EXCERPT = 24,
    PRINT_CHUNK = 4096,
    ROUND_PIECES = 64,     /* pieces of a long text per round */
    BYTES_PER_ELEMENT = 16 /* approximate bytes of text per element */
};

/* --- reading --- */

/* The state of reading one part. The text ends in ',' or ']', so no read runs past its end. */
struct cursor {
    const struct json_read *read;
    const char *end;
    const char *next_step; /* when the text before this is read, call the step of
                              read->parallel */
    uint64_t element;      /* index of the next element in the whole array */
    bool given_up;         /* read->parallel gave up: any further text is refused */
};

static const char *step_after(const char *p, const char *end)
{
    return p + smaller_of((size_t)(end - p), PARALLEL_STEP_BYTES);
}

static void step_or_give_up(struct cursor *cursor, const char *p)
{
    cursor->next_step = step_after(p, cursor->end);
    cursor->given_up = !parallel_step(cursor->read->parallel);
}

/* Return the next byte that is not a space. No space is skipped once the work is given up: a
 * space at a wrong place then ends the reading. */
static inline const char *skip_space(struct cursor *cursor, const char *p)
{
    while (text_is_space(*p) && !cursor->given_up) {
        p++;
        if (p == cursor->next_step) {
            step_or_give_up(cursor, p);
        }
    }
    return p;
}

/* Write the path of an element: "data[5]", or "data[1][2]" if the shape is known. */
static void element_path(const struct json_read *read, uint64_t element, char *path,
                         size_t size)
{
    uint64_t index[LIMIT_RANK] = {element};
    int rank = read->rank > 1 ? read->rank : 1;
    uint64_t left = element;
    for (int d = rank - 1; d > 0; d--) {
        uint64_t extent = read->sizes[d] > 0 ? (uint64_t)read->sizes[d] : 1;
        index[d] = left % extent;
        left /= extent;
        index[0] = left;
    }
    (void)snprintf(path, size, "%s", read->field);
    for (int d = 0; d < rank; d++) {
        text_append(path, size, "[%llu]", (unsigned long long)index[d]);
    }
}

/* Write the start of the text at p in printable form: a string up to its closing quote,
 * anything else up to the next byte that may follow an element. */
static void make_excerpt(const char *p, const char *end, char text[EXCERPT + 4])
{
    const bool quoted = p < end && *p == '"';
    size_t n = 0;
    while (n < EXCERPT && p + n < end && (quoted || strchr(",]} \n\r\t", p[n]) == NULL)) {
        text[n] = (char)(p[n] >= ' ' && p[n] < 0x7F ? p[n] : '?');
        n++;
        if (quoted && n > 1 && text[n - 1] == '"') {
            break;
        }
    }
    const bool whole = n < EXCERPT || (quoted && text[n - 1] == '"');
    memcpy(text + n, whole ? "" : "...", whole ? 1 : 4);
}

static const char *syntax_hint(enum dtype dtype, const char *p)
{
    if (dtype == DTYPE_BOOL) {
        return "expected true or false: name the type of numbers, such as int64";
    }
    switch (*p) {
    case 'N':
    case 'n':
    case 'I':
    case 'i':
    case '-':
        if (*p == '-' && (p[1] | 0x20) != 'i') {
            return "which is no JSON number";
        }
        return dtype_is_float(dtype)
                   ? "expected a number, NaN, Infinity, -Infinity or null, which is NaN"
                   : "expected a number; only float types have NaN, infinity and null";
    case ',':
    case ']':
        return "expected a number: one is missing here";
    case '+':
    case '.':
        return "which is no JSON number: it begins with a digit or '-'";
    case '{':
        return "expected a number, not an object";
    case 't':
    case 'f':
        return "expected a number; true and false are of type bool";
    case 'T':
    case 'F':
        return "expected a number; JSON writes true and false in small letters";
    default:
        break;
    }
    if (*p < '0' || *p > '9') {
        return "expected a number";
    }
    return p[0] == '0' && p[1] >= '0' && p[1] <= '9'
               ? "which is no JSON number: no zeros may lead"
               : "which is no JSON number: a digit must follow a point or an exponent";
}

enum {
    RANGE_TEXT = 2 * NUMBER_ROOM + 16,
    TAKERS_TEXT = 128 /* enough for the names of all types */
};

/* Write the bounds of a type for messages: "-128 to 127", "at most 65504". */
static void range_text(enum dtype dtype, char text[RANGE_TEXT])
{
    const struct dtype_info *info = dtype_info(dtype);
    const int fraction = 8 * (int)info->bytes - 1 - info->exponent_bits;
    const uint64_t sign = UINT64_C(1) << (8 * info->bytes - 1);
    char low[NUMBER_ROOM];
    char high[NUMBER_ROOM];
    if (info->kind == DTYPE_KIND_FLOAT) {
        const int bias = (1 << (info->exponent_bits - 1)) - 1;
        const uint64_t most = sign - (UINT64_C(1) << fraction) - 1; /* the largest finite
                                                                       number */
        if (bias < 64) { /* few digits: print all of them */
            const uint64_t whole = ((UINT64_C(2) << fraction) - 1) << (bias - fraction);
            (void)number_print(DTYPE_U64, &whole, high);
        } else {
            (void)number_print(dtype, &most, high);
        }
        (void)snprintf(text, RANGE_TEXT, "at most %s", high);
        return;
    }
    const bool has_sign = info->kind == DTYPE_KIND_SIGNED;
    const uint64_t least = has_sign ? sign : 0;
    const uint64_t most = has_sign ? sign - 1 : sign | (sign - 1);
    (void)number_print(dtype, &least, low);
    (void)number_print(dtype, &most, high);
    (void)snprintf(text, RANGE_TEXT, "%s to %s", low, high);
}

/* Report text other than ',' or ']' behind an element. */
static enum status separator_error(const struct cursor *cursor, const char *p,
                                   struct error *err)
{
    char path[sizeof err->field];
    char found[EXCERPT + 4];
    uint64_t before = cursor->element > 0 ? cursor->element - 1 : 0;
    if (cursor->given_up) {
        return parallel_given_up(err);
    }
    element_path(cursor->read, before, path, sizeof path);
    make_excerpt(p, cursor->end, found);
    return error_set_field(err, STATUS_INVALID_DATA, path,
                           "element %llu is followed by '%s', expected ',' or ']'%s",
                           (unsigned long long)before, found,
                           *p != '\0' && strchr("[-.0123456789", *p) != NULL
                               ? ": JSON has commas between numbers and between rows (Python: "
                                 "json.dumps(x.tolist()))"
                               : "");
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Report that the number of elements differs from the expected one. */
static enum status count_error(const struct cursor *cursor, const struct json_part *part,
                               struct error *err)
{
    if (cursor->given_up) {
        return parallel_given_up(err);
    }
    unsigned long long expected = part->elements;
    unsigned long long found = cursor->element - part->first;
    return error_set_field(err, STATUS_INVALID_DATA, cursor->read->field,
                           "%s holds %s %llu numbers, expected %llu", cursor->read->field,
                           found < expected ? "only" : "more than", found, expected);
}

/* Read a word for a value of a float type; p is at its first byte. */
static const char *read_word(enum dtype dtype, const char *p, const char *end, void *out)
{
    enum {
        LONGEST = 9 /* length of "-Infinity" */
    };
    const bool quoted = *p == '"';
    const char *word = p + quoted;
    size_t length = *word == '-' || *word == '+';
    while (length <= LONGEST && word + length < end && is_letter(word[length])) {
        length++;
    }
    const char *after = word + length + quoted;
    if (quoted && word[length] != '"') {
        return NULL;
    }
    if (!quoted && length == 4 && memcmp(word, "null", 4) == 0) {
        return number_special(dtype, "NaN", 3, out) ? after : NULL;
    }
    return number_special(dtype, word, length, out) ? after : NULL;
}

static bool is_wide_integer(enum dtype dtype)
{
    return dtype_info(dtype)->bytes == sizeof(uint64_t) && !dtype_is_float(dtype);
}

/* Read a number in quotes; p is at the opening quote. */
static const char *read_quoted(number_reader reader, const char *p, const char *end, void *out,
                               enum number_result *result)
{
    const char *after = reader(p + 1, end, out, result);
    if (after != NULL && *after != '"') {
        *result = NUMBER_SYNTAX;
        return NULL;
    }
    return after != NULL ? after + 1 : NULL;
}

static bool is_word(const char *p)
{
    return *p == '"' || *p > '9' || (*p == '-' && (p[1] | 0x20) == 'i');
}

/* Process the text between two elements: closing brackets, then a comma, or the end of the
 * part. Returns the address of the next element or '[', cursor->end at the end, NULL for any
 * other text. */
static inline const char *next_element(struct cursor *cursor, const char *p, const char **where)
{
    for (;;) {
        p = skip_space(cursor, p);
        *where = p;
        if (*p != ',' && *p != ']') {
            return NULL;
        }
        p++;
        if (p == cursor->end) {
            return p;
        }
        if (p[-1] == ',') {
            return skip_space(cursor, p);
        }
    }
}

/* Process the opening brackets before an element. *empty is set to true if they enclose no
 * element. */
static inline const char *open_brackets(struct cursor *cursor, const char *p, bool *empty)
{
    while (*p == '[') {
        p = skip_space(cursor, p + 1);
        if (*p == ']') {
            *empty = true;
            break;
        }
    }
    return p;
}

/* Read true or false, which only the type bool accepts. Returns the first byte after the word;
 * NULL if p is at neither. */
static const char *read_boolean(const struct cursor *cursor, const char *p, void *to)
{
    const size_t left = (size_t)(cursor->end - p);
    const bool on = left > 4 && memcmp(p, "true", 4) == 0;
    if (!on && (left <= 5 || memcmp(p, "false", 5) != 0)) {
        return NULL;
    }
    *(unsigned char *)to = on;
    return p + (on ? 4 : 5);
}

/* Read the value at p to `to`. 64-bit integers are also read from strings, because many
 * languages convert a JSON number to a double. Returns the first byte after the value; NULL,
 * with *result set, if it is not a value of the type. */
static inline const char *read_value(const struct cursor *cursor, number_reader reader,
                                     const char *p, void *to, enum number_result *result)
{
    const enum dtype dtype = cursor->read->dtype;
    if (dtype == DTYPE_BOOL) {
        return read_boolean(cursor, p, to);
    }
    if (!is_word(p)) {
        return reader(p, cursor->end, to, result);
    }
    return *p == '"' && is_wide_integer(dtype) ? read_quoted(reader, p, cursor->end, to, result)
                                               : read_word(dtype, p, cursor->end, to);
}

/* Write the names of the types that accept the value at p, which the requested type does not
 * accept; "" if there are none. Only types that the array may have are considered. */
static void takers_text(const struct cursor *cursor, const char *p, char text[TAKERS_TEXT])
{
    struct json_read read = *cursor->read;
    struct cursor other = *cursor;
    unsigned takers = 0;
    other.read = &read;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum number_result unused = NUMBER_OK;
        uint64_t element = 0;
        read.dtype = (enum dtype)i;
        if ((read.types == 0 || (read.types & 1U << i) != 0) &&
            read_value(&other, number_reader_of(read.dtype), p, &element, &unused) != NULL) {
            takers |= 1U << i;
        }
    }
    dtype_takers(cursor->read->dtype, takers, text, TAKERS_TEXT);
}

/* Return advice on how to write the string at p, which is not a word of a float type. */
static const char *string_hint(const struct cursor *cursor, const char *p)
{
    const enum dtype dtype = cursor->read->dtype;
    const unsigned wide = 1U << DTYPE_I64 | 1U << DTYPE_U64;
    const bool has_wide = cursor->read->types == 0 || (cursor->read->types & wide) == wide;
    enum number_result unused = NUMBER_OK;
    double number = 0;
    if (is_wide_integer(dtype)) {
        return "expected a whole number, such as 12 or \"12\": digits, with nothing but '-' "
               "before them";
    }
    if (read_quoted(number_reader_of(DTYPE_F64), p, cursor->end, &number, &unused) != NULL) {
        return has_wide
                   ? "expected a number: write it without the quotes; only int64 and uint64 "
                     "take whole numbers in quotes"
                   : "expected a number: write it without the quotes";
    }
    return dtype_is_float(dtype) ? "expected a number without quotes, such as 12 or 0.5; the "
                                   "only strings of float "
                                   "types are \"NaN\", \"Infinity\" and \"Inf\", in any case, "
                                   "the last two with or "
                                   "without a sign"
                                 : "expected a whole number without quotes, such as 12";
}

static enum status element_error(const struct cursor *cursor, const char *p,
                                 enum number_result reason, struct error *err)
{
    char path[sizeof err->field];
    char found[EXCERPT + 4];
    char range[RANGE_TEXT];
    char takers[TAKERS_TEXT];
    double special = 0;
    const char *name = dtype_info(cursor->read->dtype)->name;
    if (cursor->given_up) {
        return parallel_given_up(err);
    }
    element_path(cursor->read, cursor->element, path, sizeof path);
    make_excerpt(p, cursor->end, found);
    takers_text(cursor, p, takers);
    unsigned long long n = cursor->element;
    if (cursor->read->dtype == DTYPE_BOOL) {
        takers[0] = '\0'; /* advice about types is only for numbers */
    }
    switch (reason) {
    case NUMBER_FRACTION:
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is %s, expected a whole number for %s%s", n, found,
                               name, takers);
    case NUMBER_RANGE:
        range_text(cursor->read->dtype, range);
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is %s, out of range for %s (%s)%s", n, found, name,
                               range, takers);
    case NUMBER_TOO_LONG:
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is a number of more than %d characters", n,
                               LIMIT_NUMBER_BYTES);
    case NUMBER_OK:
    case NUMBER_SYNTAX:
        break;
    }
    const bool other_string =
        *p == '"' && read_word(DTYPE_F64, p, cursor->end, &special) == NULL;
    if (takers[0] != '\0' && !other_string) {
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is '%s', which is not a value of %s%s", n, found,
                               name, takers);
    }
    return error_set_field(err, STATUS_INVALID_DATA, path, "element %llu is '%s', %s", n, found,
                           other_string ? string_hint(cursor, p)
                                        : syntax_hint(cursor->read->dtype, p));
}

/* Read the element at p to `to`. Returns the text behind it; NULL with the error set. */
static inline const char *read_element(const struct cursor *cursor, number_reader reader,
                                       const char *p, void *to, struct error *err)
{
    enum number_result result = NUMBER_SYNTAX;
    const char *after = read_value(cursor, reader, p, to, &result);
    if (after == NULL) {
        (void)element_error(cursor, p, result, err);
    }
    return after;
}

/* Return whether reading may continue at p, where an element or an array begins. */
static inline bool may_go_on(struct cursor *cursor, const char *p)
{
    if (p >= cursor->next_step) {
        step_or_give_up(cursor, p);
    }
    return !cursor->given_up;
}

/* Return the status of the error that is set. */
static enum status refusal_status(const struct cursor *cursor)
{
    return cursor->given_up ? STATUS_CLIENT_GONE : STATUS_INVALID_DATA;
}

enum status json_tensor_read_part(const struct json_read *read, const struct json_part *part,
                                  void *out, struct error *err)
{
    const char *end = part->text + part->bytes;
    struct cursor cursor = {.read = read,
                            .end = end,
                            .next_step = step_after(part->text, end),
                            .element = part->first};
    const bool booleans = read->dtype == DTYPE_BOOL; /* the readers do not support this type */
    number_reader reader = number_reader_of(booleans ? DTYPE_U8 : read->dtype);
    number_run_reader read_run = number_run_reader_of(booleans ? DTYPE_U8 : read->dtype);
    size_t size = dtype_info(read->dtype)->bytes;
    uint64_t stop = part->first + part->elements;
    char *to = (char *)out + part->first * size;
    const char *p = skip_space(&cursor, part->text);
    while (p < cursor.end) {
        bool empty = false;
        if (!may_go_on(&cursor, p)) {
            return parallel_given_up(err);
        }
        p = open_brackets(&cursor, p, &empty);
        if (!empty && cursor.element == stop) {
            return count_error(&cursor, part, err);
        }
        if (!empty) {
            const struct number_run run =
                booleans ? (struct number_run){p, 0}
                         : read_run(p, cursor.next_step, stop - cursor.element, to);
            uint64_t count = run.count > 0 ? run.count : 1;
            p = run.count > 0 ? run.text : read_element(&cursor, reader, p, to, err);
            to += count * size;
            cursor.element += count;
        }
        if (p == NULL) {
            return refusal_status(&cursor);
        }
        const char *where = p;
        p = next_element(&cursor, p, &where);
        if (p == NULL) {
            return separator_error(&cursor, where, err);
        }
    }
    return cursor.element == stop ? STATUS_OK : count_error(&cursor, part, err);
}

struct reading {
    struct json_read read; /* `parallel` is NULL: a part is read in one step */
    const struct json_part *parts;
    void *out;
    atomic_bool failed; /* a part was refused: skip the other parts */
};

static void read_piece(void *context, int index)
{
    struct reading *reading = context;
    struct error ignored = ERROR_INIT;
    if (!atomic_load(&reading->failed) &&
        json_tensor_read_part(&reading->read, &reading->parts[index], reading->out, &ignored) !=
            STATUS_OK) {
        atomic_store(&reading->failed, true);
    }
}

/* Cut the text at commas and read one round of parts at a time. If a part is refused, the
 * whole text is read again sequentially, so that the error is that of the first fault. */
static enum status read_pieces(const struct json_read *read, struct json_cut cut,
                               uint64_t elements, void *out, struct error *err)
{
    struct json_part parts[ROUND_PIECES];
    const struct parallel *parallel = read->parallel;
    struct json_rest rest = {.cut = cut, .elements = elements};
    struct reading reading = {.read = *read, .parts = parts, .out = out};
    reading.read.parallel = NULL;
    atomic_init(&reading.failed, false);
    int count = 0;
    do {
        count = json_tensor_cut(&rest, parallel->grain, parts, ROUND_PIECES);
        if (count > 0 && !parallel->run(parallel, count, read_piece, &reading)) {
            return parallel_given_up(err);
        }
    } while (count > 0 && !atomic_load(&reading.failed));
    const struct json_part whole = {cut.text, cut.bytes, 0, elements};
    return count == 0 ? STATUS_OK : json_tensor_read_part(read, &whole, out, err);
}

enum status json_tensor_read(const struct json_read *read, struct json_cut cut,
                             uint64_t elements, void *out, struct error *err)
{
    const struct json_part whole = {cut.text, cut.bytes, 0, elements};
    if (read->parallel != NULL && cut.bytes / 2 >= read->parallel->grain) {
        return read_pieces(read, cut, elements, out, err);
    }
    return json_tensor_read_part(read, &whole, out, err);
}

/* --- printing --- */

/* A sequence of items within nested brackets. The items are numbers, or, for an array without
 * numbers, one "[]" for each empty array at the outermost empty level. */
struct layout {
    int rank;             /* levels of brackets; 0: one item without brackets */
    const int64_t *sizes; /* > 0 */
    uint64_t items;       /* UINT64_MAX: the number exceeds 64 bits */
    const char *data;
    size_t item_bytes;
    int text_max; /* characters per item */
    number_writer print_run;
    const struct json_cells *cells; /* NULL: one item for each number */
    struct json_cells_text cells_text;
};

static char *print_empty(const void *value, uint64_t count, char *out)
{
    (void)value;
    for (; count > 0; count--) {
        *out++ = '[';
        *out++ = ']';
        *out++ = ',';
    }
    return out;
}

static struct layout layout_of(const struct json_print *print)
{
    const bool nested = print->rank > 1;
    if (print->cells != NULL) {
        struct layout layout = {.rank = 1,
                                .sizes = (const int64_t *)&print->cells->count,
                                .items = print->cells->count,
                                .text_max = number_text_max(print->dtype),
                                .cells = print->cells};
        json_cells_text_init(print->dtype, print->data, &layout.cells_text);
        return layout;
    }
    if (print->elements > 0) {
        return (struct layout){.rank = nested ? print->rank : 1,
                               .sizes =
                                   nested ? print->sizes : (const int64_t *)&print->elements,
                               .items = print->elements,
                               .data = print->data,
                               .item_bytes = dtype_info(print->dtype)->bytes,
                               .text_max = number_text_max(print->dtype),
                               .print_run = number_writer_of(print->dtype)};
    }
    struct layout empty = {
        .sizes = print->sizes, .items = 1, .data = "", .text_max = 2, .print_run = print_empty};
    while (empty.rank + 1 < print->rank && print->sizes[empty.rank] > 0) {
        if (__builtin_mul_overflow(empty.items, (uint64_t)print->sizes[empty.rank],
                                   &empty.items)) {
            empty.items = UINT64_MAX;
        }
        empty.rank++;
    }
    return empty;
}

/* Compute an upper bound in bytes of the items and their commas; false if it overflows. A zero
 * in a gap needs less than a sum. */
static bool items_max(const struct layout *layout, uint64_t first, uint64_t count,
                      uint64_t *bytes)
{
    uint64_t zeros = 0;
    if (layout->cells != NULL) {
        const uint64_t sums = json_cells_sums_before(layout->cells, first + count) -
                              json_cells_sums_before(layout->cells, first);
        zeros = count - sums;
        count = sums;
    }
    return !__builtin_mul_overflow(count, layout->text_max + 1, bytes) &&
           !__builtin_mul_overflow(zeros, layout->cells_text.zero_bytes, &zeros) &&
           !__builtin_add_overflow(*bytes, zeros, bytes);
}

/* Return an upper bound of the bytes that print_items() writes or overwrites; UINT64_MAX if it
 * overflows. */
static uint64_t print_max(const struct layout *layout, uint64_t first, uint64_t count)
{
    uint64_t bytes = 0;
    uint64_t span = 1; /* items per array at the level */
    bool overflow = !items_max(layout, first, count, &bytes);
    for (int d = layout->rank - 1; d >= 0; d--) {
        if (__builtin_mul_overflow(span, (uint64_t)layout->sizes[d], &span)) {
            span = UINT64_MAX;
        }
        overflow |= __builtin_add_overflow(bytes, 2 * (count / span + 2), &bytes);
    }
    overflow |= __builtin_add_overflow(bytes, NUMBER_ROOM, &bytes);
    return overflow ? UINT64_MAX : bytes;
}

static char *put_repeated(char *out, char c, int count)
{
    for (int i = 0; i < count; i++) {
        out[i] = c;
    }
    return out + count;
}

/* Return how many arrays end after `rows` rows of the innermost dimension. */
static int arrays_ended(const struct layout *layout, uint64_t rows)
{
    int ended = 1;
    for (int d = layout->rank - 2; d >= 0; d--) {
        const uint64_t size = (uint64_t)layout->sizes[d];
        if (rows < size || rows % size != 0) { /* rarely is a division needed */
            break;
        }
        rows /= size;
        ended++;
    }
    return ended;
}

/* Print the items first..first+count-1, each followed by its brackets and commas; the very
 * first item also has the opening brackets before it. Thus the texts of consecutive ranges
 * concatenate to the whole text. */
static char *print_items(const struct layout *layout, uint64_t first, uint64_t count, char *out)
{
    if (layout->cells != NULL) {
        out = put_repeated(out, '[', first == 0);
        out = json_cells_print(layout->cells, &layout->cells_text, first, count, out);
        out[-1] = first + count == layout->items ? ']' : ',';
        return out;
    }
    const uint64_t row_items = (uint64_t)layout->sizes[layout->rank - 1];
    const char *item = layout->data + first * layout->item_bytes;
    uint64_t rows = first / row_items;
    uint64_t left_in_row = row_items - first % row_items;
    if (first == 0) {
        out = put_repeated(out, '[', layout->rank);
    }
    while (count > 0) {
        const uint64_t run = smaller_of(left_in_row, count);
        out = layout->print_run(item, run, out);
        item += run * layout->item_bytes;
        count -= run;
        left_in_row -= run;
        if (left_in_row == 0) {
            left_in_row = row_items;
            const int ended = arrays_ended(layout, ++rows);
            out = put_repeated(out - 1, ']', ended);
            if (ended < layout->rank) {
                *out++ = ',';
                out = put_repeated(out, '[', ended);
            }
        }
    }
    return out;
}

uint64_t json_tensor_write_max(const struct json_print *print, uint64_t around)
{
    const struct layout layout = layout_of(print);
    /* A long array is printed in pieces, each with room for the brackets around it. */
    const int pieces = layout.items > PRINT_CHUNK ? ROUND_PIECES : 1;
    uint64_t bytes = print_max(&layout, 0, layout.items);
    around += print_max(&layout, 0, 0) * (uint64_t)pieces;
    return __builtin_add_overflow(bytes, around, &bytes) ? UINT64_MAX : bytes;
}

struct round {
    const struct layout *layout;
    uint64_t first;              /* first item of the round */
    uint64_t piece;              /* items per piece; the last piece may have fewer */
    char *room;                  /* borrowed: memory for the texts of the round */
    size_t at[ROUND_PIECES + 1]; /* offset in `room` of the memory of each piece */
    size_t bytes[ROUND_PIECES];  /* length of the text of each piece */
    atomic_int joined;   /* pieces whose texts are contiguous from the start of `room` */
    size_t joined_bytes; /* length of these texts; only the next piece to join accesses it */
};

static void print_piece(void *context, int index)
{
    struct round *round = context;
    uint64_t first = round->first + (uint64_t)index * round->piece;
    uint64_t count = smaller_of(round->piece, round->layout->items - first);
    const bool joins = atomic_load(&round->joined) == index;
    char *to = round->room + (joins ? round->joined_bytes : round->at[index]);
    round->bytes[index] = (size_t)(print_items(round->layout, first, count, to) - to);
    if (joins) {
        round->joined_bytes += round->bytes[index];
        atomic_store(&round->joined, index + 1);
    }
}

/* Make the texts of a round contiguous and return their length. */
static size_t close_up(const struct round *round, int count)
{
    size_t bytes = round->joined_bytes;
    for (int i = atomic_load(&round->joined); i < count; i++) {
        memmove(round->room + bytes, round->room + round->at[i], round->bytes[i]);
        bytes += round->bytes[i];
    }
    return bytes;
}

/* The length of a piece is known only after it was printed. A piece that starts after all
 * earlier pieces have ended is printed directly behind them. Every other piece is printed to
 * its own room, and moved at the end of the round. If the work is given up, the writer is
 * marked failed. */
static void write_pieces(const struct layout *layout, uint64_t piece,
                         const struct parallel *parallel, struct json_writer *w)
{
    struct round round = {.layout = layout, .piece = piece};
    while (round.first < layout->items && json_writer_ok(w)) {
        uint64_t left = layout->items - round.first;
        int count = (int)smaller_of((left - 1) / piece + 1, ROUND_PIECES);
        for (int i = 0; i < count; i++) {
            const uint64_t begin = (uint64_t)i * piece;
            round.at[i + 1] = round.at[i] + print_max(layout, round.first + begin,
                                                      smaller_of(left - begin, piece));
        }
        round.room = json_writer_space(w, round.at[count]);
        atomic_store(&round.joined, 0);
        round.joined_bytes = 0;
        if (round.room == NULL || !parallel->run(parallel, count, print_piece, &round)) {
            w->failed = true;
            return;
        }
        json_writer_advance(w, close_up(&round, count));
        round.first += smaller_of(left, (uint64_t)count * piece);
    }
}

void json_tensor_write(const struct json_print *print, struct json_writer *w)
{
    const struct parallel *parallel = print->parallel;
    const struct layout layout = layout_of(print);
    const uint64_t piece = parallel != NULL ? parallel->grain / BYTES_PER_ELEMENT + 1 : 0;
    if (layout.rank == 0) {
        json_writer_raw(w, "[]", 2);
        return;
    }
    json_writer_begin_value(w);
    w->failed |= layout.items == UINT64_MAX;
    if (parallel != NULL && layout.items / 2 >= piece) {
        write_pieces(&layout, piece, parallel, w);
        return;
    }
    for (uint64_t first = 0; first < layout.items; first += PRINT_CHUNK) {
        uint64_t count = smaller_of(layout.items - first, PRINT_CHUNK);
        char *to = json_writer_space(w, print_max(&layout, first, count));
        if (to == NULL) {
            return;
        }
        json_writer_advance(w, (size_t)(print_items(&layout, first, count, to) - to));
    }
}
