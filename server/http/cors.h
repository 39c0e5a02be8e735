/* Requests of web pages of other origins (--cors-origins): the origins whose pages may call
 * this service in a browser, and the header fields that tell a browser which origins may do so.
 *
 *     cors_check()     at the start: check that every entry of the list is an origin
 *     cors_allowed()   for a request with an Origin: find the origin in the list
 *     cors_fields()    for every answer, including refusals and preflights: get its fields
 *
 * Origins are compared byte by byte, in the serialized form of RFC 6454 (6.2). An entry that no
 * browser sends is refused at the start, because it would match no request. An Origin that is
 * not on the list is not an error: the browser withholds the answer from the page, and other
 * clients can send any Origin. Credentials of the browser (cookies, certificates) are never
 * needed, so Access-Control-Allow-Credentials is not sent. Pure. Thread: any. */
#ifndef TALLY_SERVER_CORS_H
#define TALLY_SERVER_CORS_H

#include "proto/status.h"
#include "server/pages/page.h"

#include <stddef.h>

enum {
    CORS_FIELDS_MAX = 5
};

struct config_list;

/* Check the list of --cors-origins.
 * err   INVALID_FIELD, naming the flag, the entry and the expected form */
MUST_CHECK enum status cors_check(const struct config_list *origins, struct error *err);

/* Returns the value of Access-Control-Allow-Origin: "*", or the entry of the list, borrowed.
 * NULL: the origin is not on the list, or is NULL. */
const char *cors_allowed(const struct config_list *origins, const char *origin);

/* Get the header fields of an answer, and return their number.
 * allowed   the result of cors_allowed()
 * methods   the methods of the route for an answer to a preflight; else NULL */
size_t cors_fields(const struct config_list *origins, const char *allowed, const char *methods,
                   struct page_field fields[CORS_FIELDS_MAX]);

#endif
