/* The URL of a server. Thread: any. */
#ifndef TALLY_CLIENT_SERVER_URL_H
#define TALLY_CLIENT_SERVER_URL_H

#include "client/client_error.h"
#include "client/internal.h"

/* Split a server URL, and set the client's base_url and socket_path. */
enum tally_status server_url_parse(struct tally *client, const char *url,
                                   struct tally_error *err);

/* Print the URL without user name and password, for messages. */
void server_url_print(const struct tally *client, char *text, size_t size);

/* Print a sentence with tallyd's default port if the URL names no port; else "". */
void server_url_port_hint(const struct tally *client, char *text, size_t size);

#endif
