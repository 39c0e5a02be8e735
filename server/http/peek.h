/* What a client's socket says about it without reading or writing. Thread: any. */
#ifndef TALLY_SERVER_PEEK_H
#define TALLY_SERVER_PEEK_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes from the client that nobody has read yet. */
bool peek_unread(int fd);

/* How many bytes the client has taken so far, up to a constant. A Unix socket does not count:
 * there it is what of `given`, the bytes known to be handed to the socket, has left it. */
uint64_t peek_taken(int fd, uint64_t given);

#endif
