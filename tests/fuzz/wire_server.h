/* The service in this process, for the wire fuzzer: everything but main.c and OpenCL, with
 * devices that compute in plain C and fail as told, and a clock that a script moves. One server
 * at a time; it is kept between inputs and started anew after one that stopped it.
 *
 * The clock: CLOCK_MONOTONIC of all code of ours runs ahead of the real one by what
 * wire_advance() added (the linker wraps clock_gettime() and pthread_cond_timedwait()), and the
 * loops' heartbeat comes every few milliseconds, so that a script of some milliseconds sees
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

/* Print what is wrong and abort: a finding. */
_Noreturn void wire_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define WIRE_REQUIRE(condition)                                              \
    do {                                                                     \
        if (!(condition)) {                                                  \
            wire_fail("%s:%d: %s is false", __FILE__, __LINE__, #condition); \
        }                                                                    \
    } while (0)

/* Start the server unless it runs, and wait until it is ready. */
void wire_server_start(void);

/* A connected, non-blocking socket; -1: the server does not take any. */
int wire_connect(bool tcp);

/* The key of a shared memory object of WIRE_SHM_BYTES, and its bytes. */
const char *wire_shm_key(void);
unsigned char *wire_shm_bytes(void);

/* ---- what a script may do to the server ---- */

void wire_advance(uint64_t ms);
void wire_device(unsigned device, unsigned mode); /* mode: 0 works; see enum fake_mode */
void wire_squeeze(uint64_t left);                 /* leave so many bytes of the memory budget */
void wire_drain(void);                            /* as SIGTERM does */
void wire_stop(void);                             /* as a second one does, but freeing all */
bool wire_running(void);
bool wire_draining(void); /* it takes no connections any more */

/* The duties of the main thread. */
void wire_tick(void);

/* Devices work again, and nobody has the memory budget but requests. */
void wire_relieve(void);

/* All clients have left: wait until nothing of them is left, and check that. */
void wire_settle(void);

uint64_t wire_real_ns(void);

#endif
