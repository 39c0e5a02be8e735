/* libFuzzer target: the token file and the Authorization field (server/http/tokens.c).
 *
 *     byte 0: flags   the file's text up to a NUL   the field
 *
 * Flags: 1 the token of the field is in the file, with the scope that flag 2 chooses; 4 there
 * is no field. */
#include "server/base/address.h"
#include "server/http/routes.h"
#include "server/http/tokens.h"

#include "tests/fuzz/fuzz_input.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    TOKENS_KNOWN = 1,
    TOKENS_METRICS = 2,
    TOKENS_NO_FIELD = 4,
    FIELD_MOST = 4096,
    LINE_MOST = 256
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hex_of(const uint8_t *hash, char *text)
{
    for (int i = 0; i < TOKEN_HASH_BYTES; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
    }
}

/* Write a token as a line of the file. */
static int write_line(const struct token *token, char *line)
{
    char hex[2 * TOKEN_HASH_BYTES + 1];
    char scopes[32] = "";
    hex_of(token->hash, hex);
    for (unsigned bit = 1; bit <= ROUTE_SCOPE_ADMIN; bit *= 2) {
        if ((token->scopes & bit) != 0) {
            (void)strcat(strcat(scopes, scopes[0] == '\0' ? "" : ","), route_scope_name(bit));
        }
    }
    return snprintf(line, LINE_MOST, "%s:%s:%s\n", token->name, hex, scopes);
}

/* Each token of an accepted list must be complete: written as a line and parsed again, it must
 * be the same token. */
static void check_list(const struct token_list *list)
{
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < list->count; i++) {
        const struct token *token = &list->tokens[i];
        struct token_list *again = NULL;
        char line[LINE_MOST];
        int bytes = write_line(token, line);
        REQUIRE(bytes > 0 && bytes < LINE_MOST);
        REQUIRE(token->scopes != 0 && (token->scopes & ~(unsigned)ROUTE_SCOPE_ANY) == 0);
        REQUIRE(tokens_parse(line, (size_t)bytes, 0, &again, &err) == STATUS_OK);
        REQUIRE(again->count == 1);
        REQUIRE(strcmp(again->tokens[0].name, token->name) == 0);
        REQUIRE(again->tokens[0].scopes == token->scopes);
        REQUIRE(memcmp(again->tokens[0].hash, token->hash, TOKEN_HASH_BYTES) == 0);
        free(again);
    }
}

/* Return the length of the token in the field, as RFC 6750 defines it; 0: none. */
static size_t token_in(const char *field, size_t *at)
{
    if (strncasecmp(field, "Bearer ", 7) != 0) {
        return 0;
    }
    *at = 6 + strspn(field + 6, " ");
    return strcspn(field + *at, " \t");
}

static int file_of(const char *text, size_t bytes)
{
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    return fd;
}

/* A client without a token of the file is refused, and the buffer of the field no longer holds
 * the token. */
static void check_field(unsigned flags, char *field)
{
    struct token token = {.name = "known", .scopes = ROUTE_SCOPE_INFER};
    struct error err = ERROR_INIT;
    struct tokens *tokens = NULL;
    const struct address peer = {.family = AF_UNIX};
    char line[LINE_MOST];
    char path[64];
    char name[TOKEN_NAME_BYTES] = "";
    size_t at = 0;
    size_t count = field == NULL ? 0 : token_in(field, &at);
    bool alone = count > 0 && field[at + count + strspn(field + at + count, " \t")] == '\0';
    bool listed = (flags & TOKENS_KNOWN) != 0 && count > 0;
    bool known = listed && alone; /* a token followed by anything else is invalid */
    bool allowed = (flags & TOKENS_METRICS) == 0;
    token.scopes = allowed ? ROUTE_SCOPE_INFER : ROUTE_SCOPE_METRICS;
    if (listed) {
        REQUIRE(gnutls_hash_fast(GNUTLS_DIG_SHA256, field + at, count, token.hash) == 0);
    }
    int fd = file_of(line, (size_t)write_line(&token, line));
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    REQUIRE(tokens_open(path, NULL, &tokens, &err) == STATUS_OK);
    enum status status =
        tokens_check(tokens, &peer, field, ROUTE_SCOPE_INFER | ROUTE_SCOPE_ADMIN, name, &err);
    REQUIRE(status == (!known ? STATUS_UNAUTHORIZED : allowed ? STATUS_OK : STATUS_FORBIDDEN));
    REQUIRE(strcmp(name, known ? "known" : "") == 0);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(field[at + i] == '*');
    }
    tokens_close(tokens);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct token_list *list = NULL;
    char field[FIELD_MOST] = "";
    if (size == 0) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    size_t bytes = strnlen(text, size - 1);
    size_t rest = size - 1 - bytes;
    char *copy = strndup(text, bytes);
    REQUIRE(copy != NULL);
    if (tokens_parse(copy, bytes, data[0], &list, &err) == STATUS_OK) {
        REQUIRE(list->count > 0);
        check_list(list);
        free(list);
    } else {
        REQUIRE(err.status == STATUS_INVALID_FIELD);
        REQUIRE(strncmp(err.detail, "line ", 5) == 0 ||
                strncmp(err.detail, "it has no token", 15) == 0);
    }
    free(copy);
    if (rest > 0) {
        rest = strnlen(text + bytes + 1, rest - 1);
        rest = rest < sizeof field ? rest : sizeof field - 1;
        memcpy(field, text + bytes + 1, rest);
    }
    check_field(data[0], (data[0] & TOKENS_NO_FIELD) != 0 ? NULL : field);
    return 0;
}
