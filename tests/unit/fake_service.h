/* The real HTTP loop on a fake server, with devices of prescribed behaviour. */
#ifndef TALLY_TESTS_FAKE_SERVICE_H
#define TALLY_TESTS_FAKE_SERVICE_H

#include "server/base/log.h"
#include "server/http/http.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_driver.h"

#include <unistd.h>

/* Listen at the addresses given to fake_server_init(), with devices that are ready. */
static inline struct http *fake_service_start(struct fake_server *fakes)
{
    struct error err = ERROR_INIT;
    struct http *http = NULL;
    const struct log_options log = {.fd = STDERR_FILENO, .level = LOG_ERROR};
    assert_int_equal(log_open(&log, &fakes->server.log, &err), STATUS_OK);
    assert_int_equal(http_start(&fakes->server, &http, &err), STATUS_OK);
    assert_int_equal(device_pool_start(fakes->server.devices, &err), STATUS_OK);
    assert_true(fake_await_health(fakes, DEVICE_POOL_USABLE));
    return http;
}

/* Stop as service.c does; no device may hang. */
static inline void fake_service_stop(struct fake_server *fakes, struct http *http)
{
    queue_close(fakes->server.queue);
    http_halt(http);
    assert_true(device_pool_stop(fakes->server.devices));
    work_pool_destroy(fakes->server.work);
    device_pool_destroy(fakes->server.devices);
    fakes->server.devices = NULL;
    fakes->server.work = NULL;
    http_stop(http);
}

#endif
