/* The service in this process, for the wire fuzzer: everything except main.c and OpenCL, with
 * devices that compute in plain C and fail on demand, and a clock that a script advances. One
 * server at a time, kept between inputs and restarted after an input that stopped it.
 *
 * The clock: for Tally's code CLOCK_MONOTONIC is ahead of the real clock by the sum of all
 * wire_advance() calls (the linker wraps clock_gettime() and pthread_cond_timedwait()), and the
 * loops have a heartbeat every few milliseconds. A script of some milliseconds therefore sees
 * deadlines of minutes. Thread: the one that runs the inputs. */
#ifndef TALLY_TESTS_FUZZ_WIRE_SERVER_H
#define TALLY_TESTS_FUZZ_WIRE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_SHM_BYTES = 64 << 10,
    WIRE_CLIENT_REQUESTS = 3, /* --per-client-requests */
    WIRE_DEVICES = 2,
    WIRE_DEVICE_MODES = 6
};

/* Report a fault and abort. */
_Noreturn void wire_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define WIRE_REQUIRE(condition)                                              \
    do {                                                                     \
        if (!(condition)) {                                                  \
            wire_fail("%s:%d: %s is false", __FILE__, __LINE__, #condition); \
        }                                                                    \
    } while (0)

/* Start the server unless it is running, and wait until it is ready. */
void wire_server_start(void);

/* Return a connected, non-blocking socket; -1: the server accepts none. */
int wire_connect(bool tcp);

/* The key of a shared memory object of WIRE_SHM_BYTES, and its bytes. */
const char *wire_shm_key(void);
unsigned char *wire_shm_bytes(void);

/* ---- events of a script ---- */

void wire_advance(uint64_t ms);
void wire_device(unsigned device, unsigned mode); /* mode: 0 works; see enum fake_mode */
void wire_squeeze(uint64_t left);                 /* leave `left` bytes of the memory budget */
void wire_drain(void);                            /* begin the drain, as SIGTERM does */
void wire_stop(void);                             /* stop, and free everything */
bool wire_running(void);
bool wire_draining(void); /* the server accepts no more connections */

/* Do what the main thread of the service does periodically. */
void wire_tick(void);

/* Make all devices work, and release the reserved memory budget. */
void wire_relieve(void);

/* All clients have disconnected: wait until the server has released their state, and check
 * it. */
void wire_settle(void);

uint64_t wire_real_ns(void);

#endif
