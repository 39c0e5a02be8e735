/* Shared by several client tests: the headers of cmocka in the required order, and a scan of n
 * int32 numbers. */
#ifndef TESTS_CLIENT_SUPPORT_H
#define TESTS_CLIENT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/tally.h"
#include "tests/client/lib/fake_server.h"

/* One dimension of int32; `size` must outlive it. */
static inline struct tally_scan scan_of(const int64_t *size)
{
    return (struct tally_scan){.struct_size = sizeof(struct tally_scan),
                               .dtype = TALLY_INT32,
                               .rank = 1,
                               .sizes = size};
}

/* A client with short timeouts and a short back-off. */
static inline struct tally *quick_client(const char *url, int32_t retries)
{
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.timeout_ms = 20000;
    options.retries = retries;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 4;
    struct tally *client = tally_open(url, &options, &err);
    assert_non_null(client);
    return client;
}

#endif
