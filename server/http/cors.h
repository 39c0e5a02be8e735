/* Pages of other origins (--cors-origins): which of them a browser lets call this service, and
 * what the header of an answer says for that.
 *
 *     cors_check()     at the start: is each entry of the list an origin?
 *     cors_allowed()   a request came with an Origin: is that one on the list?
 *     cors_fields()    its answer, whatever that is: sums, a refusal, a preflight
 *
 * Origins are compared byte by byte, as RFC 6454 (6.2) has them serialized. An entry that no
 * browser would ever send is refused at the start, for it would silently match nothing. An Origin
 * that is not on the list is no error: the browser keeps the answer from its page, and who is no
 * browser may send what he likes. Browsers' own credentials (cookies, certificates) are never
 * asked for: Access-Control-Allow-Credentials is not sent. Pure. Thread: any. */
#ifndef TALLY_SERVER_CORS_H
#define TALLY_SERVER_CORS_H

#include "proto/status.h"
#include "server/pages/page.h"

#include <stddef.h>

enum {
    CORS_FIELDS_MAX = 5
};

struct config_list;

/* err   INVALID_FIELD: names the flag and the entry, and says how to write it */
MUST_CHECK enum status cors_check(const struct config_list *origins, struct error *err);

/* What Access-Control-Allow-Origin says: "*", or the entry of the list. NULL: this origin is not
 * on it, or none was sent. */
const char *cors_allowed(const struct config_list *origins, const char *origin);

/* What the header of an answer says besides.
 * allowed   what cors_allowed() said
 * methods   of the route, when this answers a preflight; else NULL
 * Returns how many fields there are. */
size_t cors_fields(const struct config_list *origins, const char *allowed, const char *methods,
                   struct page_field fields[CORS_FIELDS_MAX]);

#endif
