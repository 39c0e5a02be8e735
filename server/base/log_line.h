/* Private to log*.c: one line being built, in either form. Fields that do not fit are cut,
 * never the line's end. Thread: the caller's. */
#ifndef TALLY_SERVER_LOG_LINE_H
#define TALLY_SERVER_LOG_LINE_H

#include "server/base/log.h"

enum {
    LOG_LINE_BYTES = 4096
};

struct log_line {
    bool json;
    size_t used;
    char text[LOG_LINE_BYTES];
};

/* Time, level and message. */
void log_line_begin(struct log_line *line, bool json, enum log_level level,
                    const char *message);
void log_line_text(struct log_line *line, const char *key,
                   const char *value); /* NULL, "": none */
void log_line_number(struct log_line *line, const char *key, uint64_t value);
void log_line_end(struct log_line *line); /* a newline is the last byte */

#endif
