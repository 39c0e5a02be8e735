/* Shares of the log. Each second has a budget of bytes, and a client may write a line while it has
 * used less of the budget than is left of it. So a client alone gets half of the budget, two get a
 * third each, and a client that comes after a flood still finds room. Lines beyond a client's share
 * are left out and counted.
 *
 * A client is an address, of IPv6 a /64 network. The table has a row for each client of the second;
 * clients without a free row share one. Nothing can fail. Thread: one at a time. */
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
    uint64_t limit; /* bytes a second, 0: no bound */
    uint64_t second;
    uint64_t used;     /* bytes, in that second */
    uint64_t left_out; /* lines, in that second, not told by log_shares_next_left_out() yet */
    struct log_share {
        uint64_t second;       /* the row is used if it is that of the table */
        uint64_t used;         /* bytes */
        uint64_t left_out;     /* lines */
        struct address client; /* unused in the last row, which clients share */
    } rows[LOG_SHARES_ROWS + 1];
};

void log_shares_init(struct log_shares *shares, uint64_t limit);

/* Begin this second, unless the table is of it already. Lines that were left out in the second before
 * and not told yet (log_shares_next_left_out()) are forgotten. */
void log_shares_begin(struct log_shares *shares, uint64_t second);

/* Returns whether the client may write another line; if not, the line is counted as left out. NULL: the
 * line has no client, and counts for the row that clients share. */
bool log_shares_admit(struct log_shares *shares, const struct address *client);
/* Count a line of so many bytes for the client. */
void log_shares_charge(struct log_shares *shares, const struct address *client, size_t bytes);

/* The next client whose lines were left out, and their number; each is told once. *client is NULL for
 * the row that clients share. False: no client is left. */
bool log_shares_next_left_out(struct log_shares *shares, const struct address **client,
                              uint64_t *lines);

#endif
