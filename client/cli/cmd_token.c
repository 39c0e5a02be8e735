/* `tally token new NAME` makes a token for a server with --token-file. The line for that file
 * is printed on standard output, the token on standard error. The token is not stored.
 *
 * Possible failures: a name or scopes that the server would refuse are EXIT_USAGE. If the
 * system has no random bytes, or the token cannot be printed, the line for the file is not
 * printed: EXIT_LOCAL. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"
#include "proto/text.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    SECRET_BYTES = 32,
    SECRET_CHARS = 43, /* base64 of the secret without padding */
    BASE64_CHARS = 44, /* base64 of the secret with padding */
    HASH_BYTES = 32
};

static const char PREFIX[] = "tally_"; /* lets people and secret scanners recognize a token */

static bool scopes_are_known(const char *scopes)
{
    static const char *const known[] = {"infer", "metrics", "admin"};
    while (true) {
        size_t length = strcspn(scopes, ",");
        bool found = false;
        for (size_t i = 0; i < 3; i++) {
            found =
                found || (strlen(known[i]) == length && memcmp(known[i], scopes, length) == 0);
        }
        if (!found || scopes[length] == '\0') {
            return found;
        }
        scopes += length + 1;
    }
}

/* Encode the secret in the base64 of URLs (RFC 4648, section 5), without padding. */
static void spell_secret(const uint8_t secret[SECRET_BYTES], char text[BASE64_CHARS + 1])
{
    (void)EVP_EncodeBlock((unsigned char *)text, secret, SECRET_BYTES);
    for (int i = 0; i < SECRET_CHARS; i++) {
        text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
    }
    text[SECRET_CHARS] = '\0';
}

int command_token(const struct settings *settings, struct tally *client)
{
    uint8_t random[SECRET_BYTES];
    uint8_t hash[HASH_BYTES];
    char token[sizeof PREFIX + BASE64_CHARS];
    const char *scopes = settings->scopes == NULL ? "infer" : settings->scopes;
    (void)client;
    if (settings->argument == NULL || strcmp(settings->argument, "new") != 0 ||
        settings->name == NULL) {
        return complain(EXIT_USAGE,
                        "usage: tally token new NAME [--scopes infer,metrics,admin]");
    }
    if (!text_is_token_name(settings->name, strlen(settings->name))) {
        return complain(EXIT_USAGE,
                        "a token's name has 1..64 letters, digits, '.', '_' or '-'");
    }
    if (!scopes_are_known(scopes)) {
        return complain(EXIT_USAGE,
                        "--scopes %s: expected some of infer, metrics and admin, "
                        "separated by commas",
                        scopes);
    }
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return complain(EXIT_LOCAL, "the system has no random bytes");
    }
    memcpy(token, PREFIX, sizeof PREFIX);
    spell_secret(random, token + sizeof PREFIX - 1);
    if (EVP_Digest(token, strlen(token), hash, NULL, EVP_sha256(), NULL) != 1) {
        return complain(EXIT_LOCAL, "the library of SSL has no SHA-256");
    }
    bool shown = fprintf(stderr, "%s\n", token) > 0;
    explicit_bzero(token, sizeof token);
    explicit_bzero(random, sizeof random);
    if (!shown) {
        return complain(EXIT_LOCAL, "standard error: the token could not be shown");
    }
    (void)printf("%s:", settings->name);
    for (size_t i = 0; i < sizeof hash; i++) {
        (void)printf("%02x", hash[i]);
    }
    (void)printf(":%s\n", scopes);
    return EXIT_DONE;
}
