/* Connections of a client: libcurl easy handles with their keep-alive sockets. A connection is
 * owned by the caller of connection_acquire() until connection_release(). Thread: any. */
#ifndef TALLY_CLIENT_CONNECTION_H
#define TALLY_CLIENT_CONNECTION_H

#include "client/internal.h"

/* Return an idle connection, or a new connection with the client's options; NULL without
 * memory. */
CURL *connection_acquire(struct tally *client);

/* Make a connection idle; close the connection if options.idle_connections are idle already. */
void connection_release(struct tally *client, CURL *easy);

#endif
