/* A fuzz input is a script: the actions of up to four clients, and events of the server.
 *
 * Each record has an operation, a length and that many bytes:
 *   byte 0      bits 0-3 the operation (enum wire_op), bits 4-5 the client
 *   byte 1-2    length, little-endian; cut to the end of the input
 *
 * Clients connect with their first operation, client 3 by TCP, the others by a Unix socket. At
 * the end all devices work, remaining bytes are sent, and answers are awaited. Thread: any, one
 * at a time. */
#ifndef TALLY_TESTS_FUZZ_WIRE_SCRIPT_H
#define TALLY_TESTS_FUZZ_WIRE_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

enum wire_op {
    WIRE_OP_REQUEST,   /* see wire_request.h; operations 0-5 are the same */
    WIRE_OP_BYTES = 6, /* send the bytes of the record */
    WIRE_OP_SEND,      /* byte 0: share of the remaining bytes, in 256ths; 0: all */
    WIRE_OP_HALF_CLOSE,
    WIRE_OP_CLOSE,
    WIRE_OP_RESET,  /* close with a TCP reset; on a Unix socket like CLOSE */
    WIRE_OP_AWAIT,  /* wait until the server has read all, and one more answer has arrived */
    WIRE_OP_TIME,   /* byte 0: how far to advance the clock */
    WIRE_OP_DEVICE, /* byte 0: mode; byte 1: device */
    WIRE_OP_MEMORY, /* byte 0: KiB that remain of the memory budget */
    WIRE_OP_END     /* byte 0: 0-199 read nothing more before the end, 200-229 drain,
                       230- stop */
};

/* Run a script. Aborts at every fault. */
void wire_script_run(const uint8_t *data, size_t size);

#endif
