/* Connections of a client: libcurl easy handles with their keep-alive sockets. A connection belongs
 * to its acquirer until it is released. Thread: any; the client's lock guards the idle ones. */
#ifndef TALLY_CLIENT_CONNECTION_H
#define TALLY_CLIENT_CONNECTION_H

#include "client/internal.h"

/* Return an idle connection, or a new one that has the client's options; NULL without memory. */
CURL *connection_acquire(struct tally *client);

/* Keep the connection for the next call, or close it if enough are idle. */
void connection_release(struct tally *client, CURL *easy);

#endif
