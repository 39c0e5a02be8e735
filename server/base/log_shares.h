/* Shares of the log. Each second has a budget of bytes. A client may write a line if it has
 * used fewer bytes than the budget still has. So a single client gets half of the budget, two
 * clients get a third each, and after a flood of one client there is still room for another.
 * Lines beyond a client's share are dropped and counted.
 *
 * A client is an IPv4 address or an IPv6 /64 network. The table has a row for each client of
 * the current second; clients that find no free row share the last row. No function can fail.
 * Thread: one at a time. */
#ifndef TALLY_SERVER_LOG_SHARES_H
#define TALLY_SERVER_LOG_SHARES_H

#include "server/base/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOG_SHARES_ROWS = 512
};

struct log_shares {
    uint64_t limit;    /* bytes per second, 0: no limit */
    uint64_t second;   /* current second */
    uint64_t used;     /* bytes of lines in the current second */
    uint64_t left_out; /* dropped lines that log_shares_next_left_out() has not reported */
    struct log_share {
        uint64_t second;       /* the row is in use if this is the current second */
        uint64_t used;         /* bytes of the client's lines */
        uint64_t left_out;     /* dropped lines of the client */
        struct address client; /* unused in the last row, which clients share */
    } rows[LOG_SHARES_ROWS + 1];
};

void log_shares_init(struct log_shares *shares, uint64_t limit);

/* Begin this second, unless it has begun already. Dropped lines of earlier seconds that were
 * not reported yet are forgotten. */
void log_shares_begin(struct log_shares *shares, uint64_t second);

/* Returns true if the client may write another line; otherwise the line is counted as dropped.
 * NULL: the line belongs to no client, and the shared row counts it. */
bool log_shares_admit(struct log_shares *shares, const struct address *client);
/* Count a line of `bytes` bytes for the client. */
void log_shares_charge(struct log_shares *shares, const struct address *client, size_t bytes);

/* Get the next client with dropped lines, and the number of these lines; each client is
 * reported once. *client is NULL for the shared row. Returns false after the last client. */
bool log_shares_next_left_out(struct log_shares *shares, const struct address **client,
                              uint64_t *lines);

#endif
