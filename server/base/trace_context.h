/* The trace of a request: parses and prints the fields traceparent and tracestate of W3C Trace
 * Context.
 *
 *     trace_context_read(text, random, &context)       continue the client's trace, or
 *     trace_context_begin(&context, random)            begin a new trace
 *     trace_context_text(&context, text)               print the field of the answer
 *
 * An invalid field is not an error of the request: "If the vendor failed to parse traceparent,
 * it creates a new traceparent and deletes the tracestate." (Trace Context, 4.3) Pure. Thread:
 * any. */
#ifndef TALLY_SERVER_TRACE_CONTEXT_H
#define TALLY_SERVER_TRACE_CONTEXT_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* "propagate at least 512 characters of a combined header" (3.3.1.5) */
    TRACE_STATE_MAX = 512,
    TRACE_PARENT_CHARS = 55,
    TRACE_SAMPLED = 1, /* flag; "the caller may have recorded trace data" */
    TRACE_RANDOM = 2   /* flag: at least the right half of the trace id is random */
};

struct trace_context {
    uint64_t trace[2]; /* id of the trace; both 0: the request has no trace */
    uint64_t parent;   /* id of the client's span; 0: the trace begins here */
    uint64_t span;     /* id of the request's span; the next seven ids are for its stages */
    uint8_t flags;     /* TRACE_ flags */
    char state[TRACE_STATE_MAX + 1]; /* tracestate of the client, fields joined; "": none */
};

static inline bool trace_context_is_set(const struct trace_context *context)
{
    return (context->trace[0] | context->trace[1]) != 0;
}

/* Continue the trace of a traceparent header. The new span gets an id from `random`. Returns
 * false and leaves *context unchanged if the text is not valid. */
MUST_CHECK bool trace_context_read(const char *traceparent, uint64_t random,
                                   struct trace_context *context);

/* Begin a new trace that is not sampled. */
void trace_context_begin(struct trace_context *context, const uint64_t random[3]);

/* Set context->state to the members of all tracestate fields, in their order. Set it to "" if a
 * member is not valid or the members are too long. */
void trace_context_read_state(const char *const *fields, size_t count,
                              struct trace_context *context);

/* Write 16 hexadecimal digits and a NUL. Returns the address of the NUL. */
static inline char *trace_hex(uint64_t value, char *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
    }
    out[16] = '\0';
    return out + 16;
}

/* Print the traceparent that names the request's span. */
void trace_context_text(const struct trace_context *context, char text[TRACE_PARENT_CHARS + 1]);

#endif
