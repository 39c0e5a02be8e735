/* Reads and writes traceparent and tracestate. The quoted rules are from W3C Trace Context
 * (Recommendation of 23 November 2021); the rule for the flag of random ids is from level 2. */
#include "server/base/trace_context.h"

#include "proto/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    STATE_MEMBERS_MAX = 32,
    STATE_KEY_MAX = 256,
    STATE_TENANT_MAX = 241,
    STATE_SYSTEM_MAX = 14,
    STATE_VALUE_MAX = 256
};

/* Parse digits of "HEXDIGLC", the lower-case digits. Returns false for any other character. */
static bool read_hex(const char *text, int digits, uint64_t *out)
{
    uint64_t value = 0;
    for (int i = 0; i < digits; i++) {
        char c = text[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && !(c >= 'a' && c <= 'f')) {
            return false;
        }
        value = value << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *out = value;
    return true;
}

/* Returns a number for a span. The number is not 0, and it is a multiple of 8, so that the next
 * seven numbers are free for stages. */
static uint64_t span_of(uint64_t random)
{
    return (random & ~UINT64_C(7)) | 8;
}

/* "version-format = trace-id "-" parent-id "-" trace-flags" (3.2.2). */
bool trace_context_read(const char *traceparent, uint64_t random, struct trace_context *context)
{
    uint64_t version = 0;
    uint64_t trace[2] = {0};
    uint64_t parent = 0;
    uint64_t flags = 0;
    const char *text = traceparent + strspn(traceparent, " \t");
    const size_t count =
        text_trimmed(text, strlen(text)); /* libmicrohttpd 0.9.75 does not trim values */
    if (count < TRACE_PARENT_CHARS || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
        !read_hex(text, 2, &version) || !read_hex(text + 3, 16, &trace[0]) ||
        !read_hex(text + 19, 16, &trace[1]) || !read_hex(text + 36, 16, &parent) ||
        !read_hex(text + 53, 2, &flags)) {
        return false;
    }
    /* "Version ff is invalid." A later version may have more fields after another dash. */
    bool longer = count > TRACE_PARENT_CHARS;
    if (version == 0xff || (longer && (version == 0 || text[TRACE_PARENT_CHARS] != '-')) ||
        (trace[0] | trace[1]) == 0 || parent == 0) {
        return false;
    }
    *context = (struct trace_context){.trace = {trace[0], trace[1]},
                                      .parent = parent,
                                      .span = span_of(random),
                                      .flags = flags & (TRACE_SAMPLED | TRACE_RANDOM)};
    return true;
}

void trace_context_begin(struct trace_context *context, const uint64_t random[3])
{
    *context = (struct trace_context){
        .trace = {random[0], random[1] | 1}, .span = span_of(random[2]), .flags = TRACE_RANDOM};
}

/* ---- tracestate ---- */

/* "key = lcalpha 0*255( lcalpha / DIGIT / "_" / "-"/ "*" / "/" )", or "( lcalpha / DIGIT )
 * 0*240( ... ) "@" lcalpha 0*13( ... )" (3.3.1.3.1). The byte after the first `count` bytes is
 * not a character of a key. */
static bool key_is_valid(const char *text, size_t count)
{
    static const char rest[] =
        "abcdefghijklmnopqrstuvwxyz0123456789_-*/"; /* of these, only letters are >= 'a' */
    const size_t run = strspn(text, rest);
    if (run == 0 || run > count || strspn(text, "_-*/") > 0) {
        return false;
    }
    if (run == count) {
        return count <= STATE_KEY_MAX && text[0] >= 'a';
    }
    const char *system = text + run + 1;
    const size_t system_count = count - run - 1;
    return run <= STATE_TENANT_MAX && text[run] == '@' && system_count > 0 &&
           system_count <= STATE_SYSTEM_MAX && system[0] >= 'a' &&
           strspn(system, rest) == system_count;
}

/* "value = 0*255(chr) nblk-chr", printable ASCII except comma and equals sign; the caller has
 * removed trailing blanks. */
static bool value_is_valid(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (text[i] < ' ' || text[i] > '~' || text[i] == ',' || text[i] == '=') {
            return false;
        }
    }
    return count > 0 && count <= STATE_VALUE_MAX;
}

/* "Only one entry per key is allowed." */
static bool has_key(const char *state, const char *key, size_t key_bytes)
{
    for (const char *at = state; *at != '\0';) {
        if (strncmp(at, key, key_bytes) == 0 && at[key_bytes] == '=') {
            return true;
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return false;
}

/* Append a list-member. Returns false if the member is not valid or there is no room. */
static bool add_member(char *state, size_t *used, const char *text, size_t count)
{
    const char *equals = memchr(text, '=', count);
    size_t key_bytes = equals == NULL ? 0 : (size_t)(equals - text);
    if (!key_is_valid(text, key_bytes) ||
        !value_is_valid(text + key_bytes + 1, count - key_bytes - 1) ||
        has_key(state, text, key_bytes)) {
        return false;
    }
    bool comma = *used > 0;
    if (*used + comma + count > TRACE_STATE_MAX) {
        return false;
    }
    if (comma) {
        state[(*used)++] = ',';
    }
    memcpy(state + *used, text, count);
    *used += count;
    state[*used] = '\0';
    return true;
}

void trace_context_read_state(const char *const *fields, size_t count,
                              struct trace_context *context)
{
    size_t used = 0;
    int members = 0;
    context->state[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        for (const char *at = fields[i]; *at != '\0';) {
            const char *text = at + strspn(at, " \t");
            const size_t whole = strcspn(text, ",");
            const size_t bytes = text_trimmed(text, whole);
            at = text + whole;
            at += *at == ',';
            if (bytes == 0) {
                continue; /* "Empty list-members are allowed" */
            }
            if (++members > STATE_MEMBERS_MAX ||
                !add_member(context->state, &used, text, bytes)) {
                context->state[0] = '\0';
                return;
            }
        }
    }
}

/* ---- printing ---- */

void trace_context_text(const struct trace_context *context, char text[TRACE_PARENT_CHARS + 1])
{
    (void)snprintf(text, TRACE_PARENT_CHARS + 1,
                   "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-%02x", context->trace[0],
                   context->trace[1], context->span, context->flags);
}
