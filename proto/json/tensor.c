/* The second pass over a JSON array, which converts its numbers in place, and the way back.
 *
 * Reading alternates between an element and what stands after it (next_element()): closing
 * brackets, then a comma. Each look is safe without a bound, because the text ends in ',' or
 * ']'. Printing does the same the other way round. Both convert a long array in pieces side by side,
 * a round of them at a time: however long the text, a piece is short, and so is what is done between
 * rounds.
 *
 * Possible failures: an element that is no number, is out of range or not whole
 * (element_error()), something else than ',' or ']' after one (separator_error()), another
 * number of elements than was measured (count_error()), or nobody waits any more
 * (parallel_given_up()); each says which element. Printing cannot fail but for memory. */
#include "proto/json/tensor.h"

#include "proto/json/number_text.h"
#include "proto/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    EXCERPT = 24,
    PRINT_CHUNK = 4096,
    ROUND_PIECES = 64, /* of a long text, that are worked on side by side, then the next ones */
    BYTES_PER_ELEMENT = 16 /* of text, about */
};

/* --- reading --- */

/* One part on its way. The text ends in ',' or ']', so no look at it runs past its end. */
struct cursor {
    const struct json_read *read;
    const char *end;
    const char *next_step; /* of read->parallel, when the text before this is read */
    uint64_t element;      /* number of the next one in the whole array */
    bool given_up;         /* by read->parallel: whatever stands next is refused */
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

/* The next byte that is no space. None is skipped once the work is given up: a space where
 * something else belongs ends the reading. */
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

/* Path of an element: "data[5]", or "data[1][2]" where the shape is known. */
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

/* What stands at p, cut short and made printable. */
static void make_excerpt(const char *p, const char *end, char text[EXCERPT + 4])
{
    size_t n = 0;
    while (n < EXCERPT && p + n < end && strchr(",]} \n\r\t", p[n]) == NULL) {
        text[n] = (char)(p[n] > ' ' && p[n] < 0x7F ? p[n] : '?');
        n++;
    }
    memcpy(text + n, n == EXCERPT ? "..." : "", n == EXCERPT ? 4 : 1);
}

static const char *syntax_hint(const char *p)
{
    switch (*p) {
    case 'N':
    case 'I':
        return "expected a number; write \"NaN\", \"Infinity\" and \"-Infinity\" in quotes";
    case '-':
        return p[1] == 'I' ? "expected a number; write \"-Infinity\" in quotes"
                           : "which is no JSON number";
    case ',':
    case ']':
        return "expected a number: one is missing here";
    case '+':
    case '.':
        return "which is no JSON number: it begins with a digit or '-'";
    case '"':
        return "expected a number; the only strings are \"NaN\", \"Infinity\", \"-Infinity\" "
               "of float types";
    case '{':
        return "expected a number, not an object";
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
    RANGE_TEXT = 2 * NUMBER_ROOM + 16
};

/* Bounds of a type as text, for messages: "-128 to 127", "at most 65504". */
static void range_text(enum dtype dtype, char text[RANGE_TEXT])
{
    const struct dtype_info *info = dtype_info(dtype);
    const int fraction = 8 * (int)info->bytes - 1 - info->exponent_bits;
    const uint64_t sign = UINT64_C(1) << (8 * info->bytes - 1);
    char low[NUMBER_ROOM];
    char high[NUMBER_ROOM];
    if (info->kind == DTYPE_KIND_FLOAT) {
        const int bias = (1 << (info->exponent_bits - 1)) - 1;
        const uint64_t most = sign - (UINT64_C(1) << fraction) - 1; /* before infinity */
        if (bias < 64) { /* all its digits: they are few */
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

static enum status element_error(const struct cursor *cursor, const char *p,
                                 enum number_result reason, struct error *err)
{
    char path[sizeof err->field];
    char found[EXCERPT + 4];
    char range[RANGE_TEXT];
    const char *name = dtype_info(cursor->read->dtype)->name;
    if (cursor->given_up) {
        return parallel_given_up(err);
    }
    element_path(cursor->read, cursor->element, path, sizeof path);
    make_excerpt(p, cursor->end, found);
    unsigned long long n = cursor->element;
    switch (reason) {
    case NUMBER_FRACTION:
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is %s, expected a whole number for %s", n, found,
                               name);
    case NUMBER_RANGE:
        range_text(cursor->read->dtype, range);
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is %s, out of range for %s (%s)", n, found, name,
                               range);
    case NUMBER_TOO_LONG:
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "element %llu is a number of more than %d characters", n,
                               LIMIT_NUMBER_BYTES);
    case NUMBER_OK:
    case NUMBER_SYNTAX:
        break;
    }
    return error_set_field(err, STATUS_INVALID_DATA, path, "element %llu is '%s', %s", n, found,
                           syntax_hint(p));
}

/* After an element, something else than ',' or ']'. */
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
                           "after element %llu stands '%s', expected ',' or ']'",
                           (unsigned long long)before, found);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The caller expected another number of elements than there are. */
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

/* Store what a word without its quotes stands for. */
static bool store_word(const struct json_read *read, const char *word, size_t length, void *out)
{
    static const struct {
        const char *spelling;
        const char *name;
    } loose[] = {{"nan", "NaN"},
                 {"inf", "Infinity"},
                 {"infinity", "Infinity"},
                 {"-inf", "-Infinity"},
                 {"-infinity", "-Infinity"}};
    if (!read->any_spelling) {
        return number_special(read->dtype, word, length, out);
    }
    for (size_t i = 0; i < ARRAY_COUNT(loose); i++) {
        if (strlen(loose[i].spelling) == length &&
            strncasecmp(loose[i].spelling, word, length) == 0) {
            return number_special(read->dtype, loose[i].name, strlen(loose[i].name), out);
        }
    }
    return false;
}

/* A word that stands for a value of a float type; p is at its first byte. */
static const char *read_word(const struct cursor *cursor, const char *p, void *out)
{
    enum {
        LONGEST = 9
    };
    bool quoted = *p == '"';
    const char *word = p + quoted;
    size_t length = 0;
    while (length <= LONGEST && word + length < cursor->end &&
           (word[length] == '-' || is_letter(word[length]))) {
        length++;
    }
    const char *after = word + length + quoted;
    if (quoted && word[length] != '"') {
        return NULL;
    }
    if (!quoted && cursor->read->null_is_nan && length == 4 && memcmp(word, "null", 4) == 0) {
        return number_special(cursor->read->dtype, "NaN", 3, out) ? after : NULL;
    }
    bool allowed = quoted || cursor->read->bare_nan;
    return allowed && store_word(cursor->read, word, length, out) ? after : NULL;
}

static bool is_word(const char *p)
{
    return *p == '"' || *p > '9' || (*p == '-' && (p[1] | 0x20) == 'i');
}

/* The state between two elements: closing brackets, then a comma, or the end of the part.
 * Returns where the next element or '[' is, cursor->end at the end, NULL for anything else. */
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

/* Opening brackets in front of an element; *empty if they enclose none. */
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

/* The element at p to `to`; returns what follows it, NULL with the error set. */
static inline const char *read_element(const struct cursor *cursor, number_reader reader,
                                       const char *p, void *to, struct error *err)
{
    enum number_result result = NUMBER_SYNTAX;
    const char *after =
        is_word(p) ? read_word(cursor, p, to) : reader(p, cursor->end, to, &result);
    if (after == NULL) {
        (void)element_error(cursor, p, result, err);
    }
    return after;
}

/* Whether p, where an element or an array begins, is still worth reading. */
static inline bool may_go_on(struct cursor *cursor, const char *p)
{
    if (p >= cursor->next_step) {
        step_or_give_up(cursor, p);
    }
    return !cursor->given_up;
}

/* The status of the error that is set. */
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
    number_reader reader = number_reader_of(read->dtype);
    number_run_reader read_run = number_run_reader_of(read->dtype);
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
                read_run(p, cursor.next_step, stop - cursor.element, to);
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
    struct json_read read; /* a part is a step, it has none of its own */
    const struct json_part *parts;
    void *out;
    atomic_bool failed; /* some part cannot be read: the others need not be */
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

/* A text is cut at commas, a round of pieces at a time. Where a part cannot be read, the whole is
 * read once more from the front, so that the error is the first one of the text, in the same words
 * as ever. */
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
    return count == 0 && !atomic_load(&reading.failed)
               ? STATUS_OK
               : json_tensor_read_part(read, &whole, out, err);
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

uint64_t json_tensor_print_max(const struct json_print *print, uint64_t count)
{
    uint64_t bytes = 0;
    uint64_t span = 1; /* elements of one array at the level */
    if (__builtin_mul_overflow(count, number_text_max(print->dtype) + 1, &bytes)) {
        return UINT64_MAX;
    }
    for (int d = print->rank > 1 ? print->rank - 1 : 0; d >= 0; d--) {
        uint64_t extent = print->rank > 1 ? (uint64_t)print->sizes[d] : print->elements;
        if (extent == 0 || __builtin_mul_overflow(span, extent, &span)) {
            span = UINT64_MAX;
        }
        if (__builtin_add_overflow(bytes, 2 * (count / span + 2), &bytes)) {
            return UINT64_MAX;
        }
    }
    return __builtin_add_overflow(bytes, NUMBER_ROOM, &bytes) ? UINT64_MAX : bytes;
}

/* Index of the next item per level, outermost first. */
struct odometer {
    int rank;
    int64_t sizes[LIMIT_RANK];
    int64_t index[LIMIT_RANK];
};

static void odometer_set(struct odometer *odometer, int rank, const int64_t *sizes,
                         uint64_t item)
{
    odometer->rank = rank;
    for (int d = rank - 1; d >= 0; d--) {
        odometer->sizes[d] = sizes[d];
        odometer->index[d] = (int64_t)(item % (uint64_t)sizes[d]);
        item /= (uint64_t)sizes[d];
    }
}

/* Go `run` items further, at most to the end of the row; returns how many arrays end there. */
static int odometer_step(struct odometer *odometer, uint64_t run)
{
    int closed = 0;
    odometer->index[odometer->rank - 1] += (int64_t)run;
    for (int d = odometer->rank - 1; d >= 0 && odometer->index[d] == odometer->sizes[d]; d--) {
        odometer->index[d] = 0;
        odometer->index[d - (d > 0)] += d > 0;
        closed++;
    }
    return closed;
}

static char *put_repeated(char *out, char c, int count)
{
    for (int i = 0; i < count; i++) {
        out[i] = c;
    }
    return out + count;
}

/* Items first..stop-1 of `size` bytes each, with what stands between them. */
static char *print_items(struct odometer *odometer, const char *value, size_t size,
                         number_writer print_run, const uint64_t range[2], char *out)
{
    uint64_t i = range[0];
    if (i == 0) {
        out = put_repeated(out, '[', odometer->rank);
    }
    while (i < range[1]) {
        uint64_t run = (uint64_t)(odometer->sizes[odometer->rank - 1] -
                                  odometer->index[odometer->rank - 1]);
        run = smaller_of(run, range[1] - i);
        out = print_run(value, run, out);
        value += run * size;
        i += run;
        int closed = odometer_step(odometer, run);
        if (closed > 0) {
            out = put_repeated(out - 1, ']', closed);
        }
        if (closed > 0 && closed < odometer->rank) {
            *out++ = ',';
            out = put_repeated(out, '[', closed);
        }
    }
    return out;
}

char *json_tensor_print(const struct json_print *print, uint64_t first, uint64_t count,
                        char *out)
{
    struct odometer odometer;
    size_t size = dtype_info(print->dtype)->bytes;
    const int64_t flat = (int64_t)print->elements;
    bool nested = print->rank > 1;
    odometer_set(&odometer, nested ? print->rank : 1, nested ? print->sizes : &flat, first);
    return print_items(&odometer, (const char *)print->data + first * size, size,
                       number_writer_of(print->dtype), (const uint64_t[]){first, first + count},
                       out);
}

static char *print_nothing(const void *value, uint64_t count, char *out)
{
    (void)value;
    for (; count > 0; count--) {
        *out++ = '[';
        *out++ = ']';
        *out++ = ',';
    }
    return out;
}

/* A nested array without elements: the levels above the first empty one, "[]" in each place. */
struct empty {
    int levels;
    uint64_t items; /* empty arrays; UINT64_MAX: too many to count */
    uint64_t bytes; /* of text, at most; likewise */
};

static struct empty empty_of(const struct json_print *print)
{
    struct empty empty = {.items = 1, .bytes = 3};
    bool overflow = false;
    while (empty.levels + 1 < print->rank && print->sizes[empty.levels] > 0) {
        uint64_t bytes = 0;
        overflow |= __builtin_mul_overflow(empty.items, (uint64_t)print->sizes[empty.levels],
                                           &empty.items) ||
                    __builtin_mul_overflow(empty.items, 3, &bytes) || /* "[],", or "[" "]," */
                    __builtin_add_overflow(empty.bytes, bytes, &empty.bytes);
        empty.levels++;
    }
    if (overflow) {
        empty.items = UINT64_MAX;
        empty.bytes = UINT64_MAX;
    }
    return empty;
}

enum {
    EMPTY_ITEM = 2 + 1 + 2 * LIMIT_RANK, /* "[]" and what may stand around it */
    EMPTY_STEP = PARALLEL_STEP_BYTES / 16
};

static void write_empty(const struct json_print *print, struct json_writer *w)
{
    const struct empty empty = empty_of(print);
    if (empty.levels == 0) {
        json_writer_raw(w, "[]", 2);
        return;
    }
    w->failed |= empty.items == UINT64_MAX;
    json_writer_begin_value(w);
    for (uint64_t i = 0; i < empty.items && json_writer_ok(w); i++) {
        struct odometer odometer;
        char *to = json_writer_space(w, EMPTY_ITEM);
        if (i % EMPTY_STEP == EMPTY_STEP - 1 && !parallel_step(print->parallel)) {
            w->failed = true;
        }
        if (to != NULL) {
            odometer_set(&odometer, empty.levels, print->sizes, i);
            const uint64_t range[2] = {i, i + 1};
            char *end = print_items(&odometer, to, 0, print_nothing, range, to);
            json_writer_advance(w, (size_t)(end - to));
        }
    }
}

uint64_t json_tensor_write_max(const struct json_print *print, uint64_t around)
{
    uint64_t bytes = 0;
    if (print->elements == 0) {
        bytes = empty_of(print).bytes;
        around += EMPTY_ITEM;
    } else {
        /* Long ones are printed in pieces, each with room for the brackets around it. */
        bool pieces = print->elements > PRINT_CHUNK;
        bytes = json_tensor_print_max(print, print->elements);
        around += json_tensor_print_max(print, 0) * (pieces ? ROUND_PIECES : 1);
    }
    return __builtin_add_overflow(bytes, around, &bytes) ? UINT64_MAX : bytes;
}

struct round {
    const struct json_print *print;
    uint64_t first; /* element the round begins with */
    uint64_t piece; /* elements of every piece but perhaps the last */
    char *room;
    size_t piece_room; /* bytes for each */
    size_t bytes[ROUND_PIECES];
};

static void print_piece(void *context, int index)
{
    struct round *round = context;
    uint64_t first = round->first + (uint64_t)index * round->piece;
    uint64_t count = smaller_of(round->piece, round->print->elements - first);
    char *to = round->room + (size_t)index * round->piece_room;
    round->bytes[index] = (size_t)(json_tensor_print(round->print, first, count, to) - to);
}

/* Move the texts of a round together; returns their length. */
static size_t close_up(const struct round *round, int count)
{
    size_t bytes = round->bytes[0];
    for (int i = 1; i < count; i++) {
        memmove(round->room + bytes, round->room + (size_t)i * round->piece_room,
                round->bytes[i]);
        bytes += round->bytes[i];
    }
    return bytes;
}

static uint64_t piece_elements(const struct json_print *print)
{
    return print->parallel->grain / BYTES_PER_ELEMENT + 1;
}

/* How long a piece gets is known only when it is there. So the pieces of a round are printed each
 * where it cannot meet the next, and then moved together. A writer whose work was given up has
 * failed. */
static void write_pieces(const struct json_print *print, struct json_writer *w)
{
    const struct parallel *parallel = print->parallel;
    struct round round = {.print = print, .piece = piece_elements(print)};
    uint64_t piece_room = json_tensor_print_max(print, round.piece);
    if (piece_room > SIZE_MAX / ROUND_PIECES) {
        w->failed = true;
        return;
    }
    round.piece_room = (size_t)piece_room;
    while (round.first < print->elements && json_writer_ok(w)) {
        uint64_t left = print->elements - round.first;
        int count = (int)smaller_of((left - 1) / round.piece + 1, ROUND_PIECES);
        uint64_t before_last = (uint64_t)(count - 1);
        uint64_t last = smaller_of(left - before_last * round.piece, round.piece);
        round.room = json_writer_space(
            w, (size_t)(before_last * round.piece_room + json_tensor_print_max(print, last)));
        if (round.room == NULL || !parallel->run(parallel, count, print_piece, &round)) {
            w->failed = true;
            return;
        }
        json_writer_advance(w, close_up(&round, count));
        round.first += smaller_of(left, (uint64_t)count * round.piece);
    }
}

void json_tensor_write(const struct json_print *print, struct json_writer *w)
{
    if (print->elements == 0) {
        write_empty(print, w);
        return;
    }
    json_writer_begin_value(w);
    if (print->parallel != NULL && print->elements / 2 >= piece_elements(print)) {
        write_pieces(print, w);
        return;
    }
    for (uint64_t first = 0; first < print->elements; first += PRINT_CHUNK) {
        uint64_t count = smaller_of(print->elements - first, PRINT_CHUNK);
        char *to = json_writer_space(w, json_tensor_print_max(print, count));
        if (to == NULL) {
            return;
        }
        json_writer_advance(w, (size_t)(json_tensor_print(print, first, count, to) - to));
    }
}
