/* The state of an exchange, shared by the files that implement it: exchange.c (life and
 * callbacks) and retry.c (what a failed attempt means and what comes next). */
#ifndef TALLY_CLIENT_EXCHANGE_INTERNAL_H
#define TALLY_CLIENT_EXCHANGE_INTERNAL_H

#include "client/answer.h"
#include "client/exchange.h"

enum {
    EXCHANGE_MAGIC = 0x7a11e8c4
};

struct exchange {
    unsigned magic;
    struct tally *client; /* borrowed */
    struct exchange_spec spec;
    char *url;                  /* owned */
    struct curl_slist *headers; /* owned */
    int64_t give_up_ms;         /* 0: never */
    int64_t retry_at_ms;
    int attempts;
    int stale; /* attempts on kept connections that turned out to be closed */
    /* of the current attempt: */
    uint64_t sent;     /* position in head + body */
    uint64_t received; /* bytes handed to the sink */
    bool begun;        /* the sink has seen the head */
    bool reused;       /* it ran on a kept connection */
    bool touched;      /* the sink was given bytes, in any attempt */
    CURL *easy;        /* borrowed while an attempt runs */
    struct answer_head answer;
    char curl_message[CURL_ERROR_SIZE];
    struct tally_error error; /* status TALLY_OK while nothing failed */
};

/* Name what libcurl's code means for the caller and fill exchange->error. */
void transport_error(struct exchange *exchange, CURLcode code);

/* Whether to try again after exchange->error, and when. */
enum exchange_verdict retry_decide(struct exchange *exchange, int64_t retry_after_ms);

/* Bytes of the request's head and body together. */
static inline uint64_t exchange_send_bytes(const struct exchange *exchange)
{
    return exchange->spec.head_bytes + exchange->spec.body_bytes;
}

#endif
