/* A hash table of clients; see log_shares.h. */
#include "server/base/log_shares.h"

#include <string.h>

enum {
    PROBES = 8 /* maximum number of rows that are examined for a client */
};

void log_shares_init(struct log_shares *shares, uint64_t limit)
{
    memset(shares, 0, sizeof *shares);
    shares->limit = limit;
}

void log_shares_begin(struct log_shares *shares, uint64_t second)
{
    if (second != shares->second) {
        shares->second = second;
        shares->used = 0;
        shares->left_out = 0;
    }
}

static struct log_share *use_row(struct log_shares *shares, struct log_share *row)
{
    if (row->second != shares->second) {
        *row = (struct log_share){.second = shares->second};
    }
    return row;
}

static bool is_of(const struct log_share *row, const struct address *client)
{
    return row->client.family == client->family &&
           address_owner(&row->client) == address_owner(client);
}

static struct log_share *find_row(struct log_shares *shares, const struct address *client)
{
    struct log_share *others = &shares->rows[LOG_SHARES_ROWS];
    if (client == NULL) {
        return use_row(shares, others);
    }
    const uint64_t hash =
        (address_owner(client) + (uint64_t)client->family) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        struct log_share *row = &shares->rows[((hash >> 32) + probe) % LOG_SHARES_ROWS];
        if (row->second != shares->second) {
            *use_row(shares, row) =
                (struct log_share){.second = shares->second, .client = *client};
            return row;
        }
        if (is_of(row, client)) {
            return row;
        }
    }
    return use_row(shares, others);
}

bool log_shares_admit(struct log_shares *shares, const struct address *client)
{
    if (shares->limit == 0) {
        return true;
    }
    struct log_share *row = find_row(shares, client);
    const uint64_t left = shares->limit > shares->used ? shares->limit - shares->used : 0;
    if (row->used < left) {
        return true;
    }
    row->left_out++;
    shares->left_out++;
    return false;
}

void log_shares_charge(struct log_shares *shares, const struct address *client, size_t bytes)
{
    if (shares->limit != 0) {
        find_row(shares, client)->used += bytes;
        shares->used += bytes;
    }
}

bool log_shares_next_left_out(struct log_shares *shares, const struct address **client,
                              uint64_t *lines)
{
    for (size_t i = 0; i <= LOG_SHARES_ROWS && shares->left_out > 0; i++) {
        struct log_share *row = &shares->rows[i];
        if (row->second == shares->second && row->left_out > 0) {
            *client = i < LOG_SHARES_ROWS ? &row->client : NULL;
            *lines = row->left_out;
            shares->left_out -= row->left_out;
            row->left_out = 0;
            return true;
        }
    }
    return false;
}
