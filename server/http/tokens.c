/* See tokens.h. */
#include "server/http/tokens.h"

#include "proto/text.h"
#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/base/file_watch.h"
#include "server/base/log.h"
#include "server/base/thread.h"
#include "server/http/routes.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

enum {
    FILE_BYTES_MAX = 1 << 20,
    TOKEN_HEX_DIGITS = 2 * TOKEN_HASH_BYTES,
    LEAST_LINE = TOKEN_HEX_DIGITS + 3, /* a letter, a colon, a hash, the end of the line */
    ADDRESSES = 1024,                  /* slots for addresses that presented wrong tokens */
    WRONG_AT_ONCE = 10,    /* number of wrong tokens that an address may present at once */
    WRONG_EVERY_MS = 1000, /* time in which the allowance grows by one */
    /* number of remembered wrong tokens of an address, which are not counted again */
    WRONG_KNOWN = 4,
    STACK_BYTES = 8192 /* more stack than any digest of GnuTLS uses */
};

/* An address that has presented wrong tokens. */
struct offender {
    uint64_t key;
    /* time when the full allowance is available; each counted wrong token postpones it */
    uint64_t free_ns;
    size_t wrong_count;
    uint64_t wrong[WRONG_KNOWN]; /* first bytes of the hashes of the last wrong tokens */
};

struct tokens {
    struct log *log;
    struct file_watch watch; /* main thread only */
    /* secret: clients can neither choose the slot of an address nor learn hashes from the time
     * of a look-up */
    uint64_t seed;
    pthread_mutex_t lock;
    struct token_list *list;              /* guarded by the lock */
    struct offender offenders[ADDRESSES]; /* guarded by the lock */
};

/* ---- the file ---- */

static enum status bad_line(struct error *err, size_t number, const char *why)
{
    /* The message does not quote the line, because the line may contain a token by mistake. */
    return error_set(err, STATUS_INVALID_FIELD,
                     "line %zu: %s; expected name:sha256-hex-of-the-token[:scopes], as `tally "
                     "token new NAME` prints it",
                     number, why);
}

static bool read_hash(char *text, uint8_t *hash)
{
    const gnutls_datum_t hex = {.data = (unsigned char *)text, .size = TOKEN_HEX_DIGITS};
    size_t bytes = TOKEN_HASH_BYTES;
    return strlen(text) == TOKEN_HEX_DIGITS && gnutls_hex_decode(&hex, hash, &bytes) == 0 &&
           bytes == TOKEN_HASH_BYTES;
}

/* Parse "infer,metrics". Returns 0 if a word is no scope. */
static unsigned read_scopes(char *text)
{
    unsigned scopes = 0;
    for (const char *word = strsep(&text, ","); word != NULL; word = strsep(&text, ",")) {
        unsigned scope = 0;
        for (unsigned bit = 1; bit <= ROUTE_SCOPE_ADMIN; bit *= 2) {
            scope |= strcmp(route_scope_name(bit), word) == 0 ? bit : 0;
        }
        if (scope == 0) {
            return 0;
        }
        scopes |= scope;
    }
    return scopes;
}

static enum status parse_line(char *line, size_t number, struct token *token, struct error *err)
{
    const char *name = strsep(&line, ":");
    char *hash = strsep(&line, ":");
    if (hash == NULL || !text_is_token_name(name, strlen(name))) {
        return bad_line(err, number,
                        "it begins with no name of 1..64 letters, digits, '.', '_' or '-'");
    }
    (void)stpcpy(token->name, name);
    if (!read_hash(hash, token->hash)) {
        return bad_line(err, number, "after the name there are not 64 hexadecimal digits");
    }
    token->scopes = line == NULL ? ROUTE_SCOPE_INFER : read_scopes(line);
    return token->scopes != 0
               ? STATUS_OK
               : bad_line(err, number, "its scopes are not some of infer, metrics and admin");
}

/* Returns the first bytes of a hash. These bytes choose a bucket and tell wrong tokens apart; no
 * access depends on them. */
static uint64_t begin_of(const uint8_t *hash)
{
    uint64_t begin = 0;
    memcpy(&begin, hash, sizeof begin);
    return begin;
}

static uint64_t scatter(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t bucket_of(uint64_t seed, const uint8_t *hash)
{
    return (scatter(begin_of(hash) ^ seed) >> 32) % TOKENS_MAX;
}

/* Put the last token of the list into its bucket. Two lines with the same hash are refused,
 * because the name and scopes of one line would be ignored silently. */
static enum status index_token(struct token_list *list, uint64_t seed, struct error *err)
{
    struct token *new = &list->tokens[list->count - 1];
    uint16_t *bucket = &list->buckets[bucket_of(seed, new->hash)];
    for (size_t at = *bucket; at > 0; at = list->tokens[at - 1].next) {
        const struct token *other = &list->tokens[at - 1];
        if (memcmp(other->hash, new->hash, TOKEN_HASH_BYTES) == 0) {
            return error_set(err, STATUS_INVALID_FIELD,
                             "line %zu: its hash is that of line %zu; expected one line for "
                             "each token: remove one of the two lines",
                             new->line, other->line);
        }
    }
    new->next = *bucket;
    *bucket = (uint16_t)list->count;
    return STATUS_OK;
}

static enum status add_line(struct token_list *list, char *line, size_t number, uint64_t seed,
                            struct error *err)
{
    if (list->count == TOKENS_MAX) {
        return bad_line(err, number, "it is one more than 4096 tokens");
    }
    struct token *token = &list->tokens[list->count++];
    token->line = number;
    TRY(parse_line(line, number, token, err));
    return index_token(list, seed, err);
}

enum status tokens_parse(char *text, size_t bytes, uint64_t seed, struct token_list **list,
                         struct error *err)
{
    enum status status = STATUS_OK;
    /* one entry more than valid lines need, because add_line() stores a line before it checks
     * the line */
    const size_t most = smaller_of(TOKENS_MAX, bytes / LEAST_LINE + 1);
    struct token_list *found = calloc(1, sizeof *found + most * sizeof found->tokens[0]);
    if (found == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for tokens");
    }
    /* a NUL is an invalid character, not the end of the text */
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (char)(text[i] == '\0' ? '\1' : text[i]);
    }
    for (size_t number = 1; status == STATUS_OK && text != NULL; number++) {
        char *line = strsep(&text, "\n");
        line[text_trimmed(line, strlen(line))] = '\0';
        if (line[0] != '\0' && line[0] != '#') {
            status = add_line(found, line, number, seed, err);
        }
    }
    if (status == STATUS_OK && found->count == 0) {
        status = error_set(err, STATUS_INVALID_FIELD,
                           "it has no token, and every client would be refused; expected lines "
                           "of the form name:sha256-hex-of-the-token[:scopes], as `tally token "
                           "new NAME` prints them");
    }
    if (status != STATUS_OK) {
        free(found);
        return status;
    }
    *list = found;
    return STATUS_OK;
}

static enum status load_tokens(struct tokens *tokens, struct error *err)
{
    struct token_list *list = NULL;
    struct file_text text = {.count = 0};
    file_watch_take(&tokens->watch);
    TRY(file_watch_read(&tokens->watch, 0, FILE_BYTES_MAX, &text, err));
    enum status status = tokens_parse(text.bytes, text.count, tokens->seed, &list, err);
    file_text_free(&text);
    if (status != STATUS_OK) {
        file_watch_blame(&tokens->watch, 0, err);
        return status;
    }
    size_t count = list->count;
    MUST(pthread_mutex_lock(&tokens->lock));
    struct token_list *previous = tokens->list;
    tokens->list = list;
    MUST(pthread_mutex_unlock(&tokens->lock));
    free(previous);
    log_message(tokens->log, LOG_INFO, "tokens: %zu loaded from %s", count,
                tokens->watch.paths[0]);
    return STATUS_OK;
}

enum status tokens_open(const char *path, struct log *log, struct tokens **out,
                        struct error *err)
{
    if (path[0] == '\0') {
        return STATUS_OK;
    }
    struct tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for tokens");
    }
    MUST(pthread_mutex_init(&tokens->lock, NULL));
    tokens->log = log;
    tokens->watch = (struct file_watch){.count = 1, .paths = {path}, .flags = {"--token-file"}};
    if (getrandom(&tokens->seed, sizeof tokens->seed, GRND_NONBLOCK) < 0) {
        tokens->seed = (uint64_t)(uintptr_t)tokens;
    }
    enum status status = load_tokens(tokens, err);
    if (status != STATUS_OK) {
        tokens_close(tokens);
        return status;
    }
    *out = tokens;
    return STATUS_OK;
}

void tokens_close(struct tokens *tokens)
{
    if (tokens != NULL) {
        MUST(pthread_mutex_destroy(&tokens->lock));
        free(tokens->list);
        free(tokens);
    }
}

void tokens_tick(struct tokens *tokens, uint64_t now_ns)
{
    struct error err = ERROR_INIT;
    if (tokens != NULL && file_watch_due(&tokens->watch, now_ns) &&
        load_tokens(tokens, &err) != STATUS_OK) {
        file_watch_failed(&tokens->watch, now_ns);
        log_message(tokens->log, LOG_ERROR, "%s; the previous tokens stay in use", err.detail);
    }
}

/* ---- a request ---- */

/* Count a wrong token of an address (for IPv6, of its /64 network). Returns false if the
 * allowance of the address is used up. A token that is among the remembered wrong tokens of its
 * address is not counted again, because a client that repeats an old token does not guess. If
 * two addresses share a slot, the second one replaces the first and begins with a full
 * allowance. Thread: a holder of the lock. */
static bool allow_wrong_token(struct tokens *tokens, const struct address *peer,
                              const uint8_t *hash, uint64_t now_ns)
{
    const uint64_t every_ns = WRONG_EVERY_MS * NS_PER_MS;
    const uint64_t key = scatter(address_owner(peer) ^ tokens->seed) + (uint64_t)peer->family;
    struct offender *offender = &tokens->offenders[(key >> 32) % ADDRESSES];
    if (offender->key != key) {
        *offender = (struct offender){.key = key};
    }
    for (size_t i = 0; i < offender->wrong_count && i < WRONG_KNOWN; i++) {
        if (offender->wrong[i] == begin_of(hash)) {
            return true;
        }
    }
    if (offender->free_ns > now_ns + (WRONG_AT_ONCE - 1) * every_ns) {
        return false;
    }
    offender->wrong[offender->wrong_count++ % WRONG_KNOWN] = begin_of(hash);
    offender->free_ns = larger_of(offender->free_ns, now_ns) + every_ns;
    return true;
}

/* Returns the token with this hash; NULL: none. The time does not depend on the compared
 * hashes. Thread: a holder of the lock. */
static const struct token *find_token(const struct tokens *tokens, const uint8_t *hash)
{
    const struct token_list *list = tokens->list;
    const struct token *found = NULL;
    for (size_t at = list->buckets[bucket_of(tokens->seed, hash)]; at > 0;
         at = list->tokens[at - 1].next) {
        const struct token *token = &list->tokens[at - 1];
        found = gnutls_memcmp(token->hash, hash, TOKEN_HASH_BYTES) == 0 ? token : found;
    }
    return found;
}

/* Overwrite the unused stack, where the hash function has left a copy of the token. */
__attribute__((noinline)) static void overwrite_stack(void)
{
    uint8_t below[STACK_BYTES];
    gnutls_memset(below, 0, sizeof below);
}

/* Hash the token of "Bearer TOKEN", and overwrite the token. Returns false if there is none. */
static bool hash_token(char *authorization, uint8_t *hash)
{
    static const char scheme[] = "Bearer";
    size_t bytes = sizeof scheme - 1;
    if (authorization == NULL || strncasecmp(authorization, scheme, bytes) != 0 ||
        authorization[bytes] != ' ') {
        return false;
    }
    char *token = authorization + bytes + strspn(authorization + bytes, " ");
    size_t token_bytes = strcspn(token, " \t");
    bool alone = token[token_bytes + strspn(token + token_bytes, " \t")] == '\0';
    bool hashed = alone && token_bytes > 0 &&
                  gnutls_hash_fast(GNUTLS_DIG_SHA256, token, token_bytes, hash) == 0;
    memset(token, '*', strlen(token));
    overwrite_stack();
    return hashed;
}

enum status tokens_check(struct tokens *tokens, const struct address *peer, char *authorization,
                         unsigned scopes, char *name, struct error *err)
{
    uint8_t hash[TOKEN_HASH_BYTES];
    if (!hash_token(authorization, hash)) {
        return error_set_field(err, STATUS_UNAUTHORIZED, "Authorization",
                               "this server wants a token: send Authorization: Bearer TOKEN");
    }
    MUST(pthread_mutex_lock(&tokens->lock));
    const struct token *token = find_token(tokens, hash);
    const unsigned has = token == NULL ? 0 : token->scopes;
    if (token != NULL) {
        memcpy(name, token->name, TOKEN_NAME_BYTES);
    }
    const bool allowed = token != NULL || allow_wrong_token(tokens, peer, hash, clock_now_ns());
    MUST(pthread_mutex_unlock(&tokens->lock));
    if (!allowed) {
        return error_set_field(err, STATUS_THROTTLED, "Authorization",
                               "the token is not one of this server's, nor were more than ten "
                               "others that this address sent lately: send a valid token, "
                               "which is accepted at once");
    }
    if (has == 0) {
        return error_set_field(
            err, STATUS_UNAUTHORIZED, "Authorization",
            "the token is not one of this server's: it was mistyped, removed "
            "or belongs to another server");
    }
    if ((has & scopes) == 0) {
        return error_set_field(err, STATUS_FORBIDDEN, "Authorization",
                               "the token \"%s\" is not for this: it needs the scope %s in "
                               "the server's --token-file",
                               name, route_scope_name(scopes));
    }
    return STATUS_OK;
}
