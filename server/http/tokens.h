/* The tokens of --token-file and the check of a request's token. The file contains the hashes
 * of the tokens.
 *
 *   # name:sha256-hex-of-the-token[:scope,scope]       a comment
 *   ci:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
 *
 * A name has 1..64 letters, digits, '.', '_' and '-'. A name may occur in several lines, for
 * example with the old token and the new one. A line without scopes has the scope `infer`. A
 * hash occurs in one line. The file is read again when it changes. A file that cannot be read,
 * has a bad line, or has no token is refused: at the start with an error, later with a line in
 * the log; the previous tokens then stay in use.
 *
 * The token of a request is hashed and overwritten in place. The hash is compared in constant
 * time with the hashes of its bucket, which a secret function of the hash chooses. Every token
 * is looked up, even after wrong tokens from the same address: a token has 256 random bits, so
 * guessing is hopeless even without a limit. An address that presents many different wrong
 * tokens gets THROTTLED for further wrong tokens, with a Retry-After that clients obey. Logs
 * and errors contain the name of a token, never the token. */
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
    uint16_t next; /* 1 + index of the previous token of the bucket; 0: none */
    size_t line;   /* number of the line in the file, from 1 */
};

struct token_list {
    size_t count;
    uint16_t buckets[TOKENS_MAX]; /* 1 + index of the last token of each bucket; 0: empty */
    struct token tokens[];
};

/* Parse the text of a file in place. text[bytes] is 0. The seed is a secret on which the
 * buckets depend.
 * out   *list   the caller frees it with free()
 * err   INVALID_FIELD: a bad line, or no token (the message names the line); OUT_OF_MEMORY */
MUST_CHECK enum status tokens_parse(char *text, size_t bytes, uint64_t seed,
                                    struct token_list **list, struct error *err);

/* Read the file; *out stays NULL if path is "". Thread: main.
 * err   INVALID_FIELD, naming the file */
MUST_CHECK enum status tokens_open(const char *path, struct log *log, struct tokens **out,
                                   struct error *err);
void tokens_close(struct tokens *tokens); /* NULL is fine */

/* Read the file again if it has changed. NULL is fine. Thread: main. */
void tokens_tick(struct tokens *tokens, uint64_t now_ns);

/* Check that the request of a client at this address has a token with one of these scopes.
 * Thread: any.
 * authorization   the field's value, whose token is overwritten; NULL: none
 * name            set to the name of the token if it is known; [TOKEN_NAME_BYTES]
 * err             UNAUTHORIZED, FORBIDDEN, THROTTLED (too many wrong tokens from this address);
 *                 its field is Authorization */
MUST_CHECK enum status tokens_check(struct tokens *tokens, const struct address *peer,
                                    char *authorization, unsigned scopes, char *name,
                                    struct error *err);

#endif
