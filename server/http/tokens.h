/* Who may send requests: the tokens of --token-file, of which it has hashes alone.
 *
 *   # name:sha256-hex-of-the-token[:scope,scope]       a comment, or a line of it
 *   ci:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
 *
 * A name is 1..64 letters, digits, '.', '_' and '-', and may have several lines: the old token and
 * the new. Without scopes a line has `infer`. A hash stands in one line. The file is read again when
 * it changes. A file that cannot be read, has a bad line, or has no token is refused: at the start
 * with an error, later with a line in the log, and the tokens from before stay in use.
 *
 * The token that a client presents is hashed and overwritten where it lies. The hash is compared
 * in constant time with the hashes of its bucket, which a secret function of the hash chooses. Every
 * token is looked up, whatever its address has presented before: a token has 256 random bits, and
 * no rate of guesses finds one. An address that presents many different wrong tokens gets THROTTLED
 * for further wrong ones, with a Retry-After that clients obey. A token is in no log and no error;
 * its name is. */
#ifndef TALLY_SERVER_TOKENS_H
#define TALLY_SERVER_TOKENS_H

#include "proto/status.h"
#include "proto/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKEN_HASH_BYTES = 32,
    TOKEN_NAME_BYTES = TOKEN_NAME_MOST + 1,
    TOKENS_MAX = 4096
};

struct address;
struct log;
struct tokens; /* opaque */

struct token {
    char name[TOKEN_NAME_BYTES];
    unsigned scopes; /* bits of enum route_scope */
    uint8_t hash[TOKEN_HASH_BYTES];
    uint16_t next; /* 1 + index of the token before it in its bucket; 0: there is none */
    size_t line;   /* number in the file, from 1 */
};

struct token_list {
    size_t count;
    uint16_t buckets[TOKENS_MAX]; /* 1 + index of the last token of each bucket; 0: empty */
    struct token tokens[];
};

/* Read the text of a file, which is taken apart meanwhile. text[bytes] is 0. The seed is a secret
 * that the buckets depend on.
 * out   *list   free() is due
 * err   INVALID_FIELD, naming the line, or: there is no token; OUT_OF_MEMORY */
MUST_CHECK enum status tokens_parse(char *text, size_t bytes, uint64_t seed,
                                    struct token_list **list, struct error *err);

/* *out stays NULL where path is "". Thread: main.
 * err   INVALID_FIELD, naming the file */
MUST_CHECK enum status tokens_open(const char *path, struct log *log, struct tokens **out,
                                   struct error *err);
void tokens_close(struct tokens *tokens); /* NULL is fine */

/* Read the file again if it has changed. NULL is fine. Thread: main. */
void tokens_tick(struct tokens *tokens, uint64_t now_ns);

/* May a client at this address do what needs one of these scopes? Thread: any.
 * authorization   the field as it came, NULL if there is none; its token is overwritten
 * out             name, of TOKEN_NAME_BYTES, where a token is known
 * err             UNAUTHORIZED, FORBIDDEN, THROTTLED (one wrong token too many from this address):
 *                 field is Authorization */
MUST_CHECK enum status tokens_check(struct tokens *tokens, const struct address *peer,
                                    char *authorization, unsigned scopes, char *name,
                                    struct error *err);

#endif
