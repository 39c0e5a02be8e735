/* Who may send requests: the tokens of --token-file, of which it has hashes alone.
 *
 *   # name:sha256-hex-of-the-token[:scope,scope]       a comment, or a line of it
 *   ci:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
 *
 * A name is 1..64 letters, digits, '.', '_' and '-', and may have several lines: the old token and
 * the new. Without scopes a line has `infer`. The file is read again when it changes; what cannot
 * be read is refused with a line in the log, and the tokens from before stay.
 *
 * The token that a client presents is hashed and overwritten where it lies. The hash is compared
 * in constant time, with the lines that a secret function of it leaves. An address that presented
 * many different wrong ones has to wait before another is looked at, but one that was right from
 * there before. A token is in no log and no error; its name is. */
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
    uint16_t next; /* of its bucket: 1 + the index of one that is before it; 0: there is none */
};

struct token_list {
    size_t count;
    struct token tokens[];
};

/* Read the text of a file, which is taken apart meanwhile. text[bytes] is 0.
 * out   *list   free() is due
 * err   INVALID_FIELD, naming the line, OUT_OF_MEMORY */
MUST_CHECK enum status tokens_parse(char *text, size_t bytes, struct token_list **list,
                                    struct error *err);

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
 * err             UNAUTHORIZED, FORBIDDEN, THROTTLED: field is Authorization */
MUST_CHECK enum status tokens_check(struct tokens *tokens, const struct address *peer,
                                    char *authorization, unsigned scopes, char *name,
                                    struct error *err);

#endif
