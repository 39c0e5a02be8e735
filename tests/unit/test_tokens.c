/* The token file (server/http/tokens.c). */
#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/http/routes.h"
#include "server/http/tokens.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
/* SHA-256 of "foo" and "baz" */
#define FOO "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
#define BAZ "baa5a0964d3320fbc0c6a922140453c8513ea24ab8fd0577034804a967248096"

/* Parse a copy of the text that ends at the end of its allocation. */
static enum status parse(const char *text, size_t bytes, struct token_list **list,
                         struct error *err)
{
    char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    enum status status = tokens_parse(copy, bytes, 0, list, err);
    free(copy);
    return status;
}

static struct token_list *read_tokens(const char *text)
{
    struct error err = ERROR_INIT;
    struct token_list *list = NULL;
    assert_int_equal(parse(text, strlen(text), &list, &err), STATUS_OK);
    assert_non_null(list);
    return list;
}

static void lines_have_names_hashes_and_scopes(void **state)
{
    (void)state;
    struct token_list *list = read_tokens("# a comment\n\nci:" FOO "\r\n"
                                          "a.b_c-1:" ZEROS ":admin,metrics,infer  \n"
                                          "ci:" BAZ ":metrics");
    assert_int_equal(list->count, 3);
    assert_string_equal(list->tokens[0].name, "ci");
    assert_int_equal(list->tokens[0].scopes, ROUTE_SCOPE_INFER);
    assert_int_equal(list->tokens[0].hash[0], 0x2c);
    assert_int_equal(list->tokens[0].hash[31], 0xae);
    assert_string_equal(list->tokens[1].name, "a.b_c-1");
    assert_int_equal(list->tokens[1].scopes, ROUTE_SCOPE_ANY);
    assert_int_equal(list->tokens[2].scopes, ROUTE_SCOPE_METRICS);
    free(list);
}

static void a_file_without_a_token_is_refused(void **state)
{
    static const char *const empty[] = {"", "\n", "# ci:" FOO "\n", "\n  \r\n\t\n# none yet"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(empty); i++) {
        struct error err = ERROR_INIT;
        struct token_list *list = NULL;
        assert_int_equal(parse(empty[i], strlen(empty[i]), &list, &err), STATUS_INVALID_FIELD);
        assert_null(list);
        assert_non_null(strstr(err.detail, "it has no token"));
        assert_non_null(strstr(err.detail, "tally token new"));
    }
}

static void two_lines_with_one_hash_are_refused_by_their_numbers(void **state)
{
    static const char *const twice[] = {
        "ci:" FOO "\n# the same\nci:" FOO "\n",
        "old:" FOO ":metrics\nbatch:" BAZ "\nnew:" FOO "\n",
        "old:" FOO "\n\nnew:2C26B46B68FFC68FF99B453C1D30413413422D706483BFA0F98A5E886266E7AE\n",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(twice); i++) {
        struct error err = ERROR_INIT;
        struct token_list *list = NULL;
        assert_int_equal(parse(twice[i], strlen(twice[i]), &list, &err), STATUS_INVALID_FIELD);
        assert_null(list);
        assert_non_null(strstr(err.detail, "line 3: its hash is that of line 1;"));
        assert_null(strcasestr(err.detail, "2c26"));
    }
}

static void every_other_line_is_refused_by_number(void **state)
{
    static const char *const bad[] = {
        "x",
        "x:",
        ":" ZEROS,
        "x:" ZEROS "0",
        "x: " ZEROS,
        "x y:" ZEROS,
        " x:" ZEROS,
        "x:" ZEROS ":",
        "x:" ZEROS ":infer:admin",
        "x:" ZEROS ":infer,,admin",
        "x:" ZEROS ":infer admin",
        "x:" ZEROS ":Infer",
        "x:zz00000000000000000000000000000000000000000000000000000000000000",
        ZEROS "00:" ZEROS,
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct error err = ERROR_INIT;
        struct token_list *list = NULL;
        char text[512] = "# one\n";
        strcat(text, bad[i]);
        assert_int_equal(parse(text, strlen(text), &list, &err), STATUS_INVALID_FIELD);
        assert_null(list);
        assert_non_null(strstr(err.detail, "line 2: "));
    }
}

static void a_name_with_a_nul_inside_is_refused(void **state)
{
    static const char text[] = "x\0y:" ZEROS;
    struct error err = ERROR_INIT;
    struct token_list *list = NULL;
    (void)state;
    assert_int_equal(parse(text, sizeof text - 1, &list, &err), STATUS_INVALID_FIELD);
    assert_null(list);
    assert_non_null(strstr(err.detail, "line 1: "));
}

/* A crash of the machine may leave a file of NULs: if NULs were blanks, the file would have no
 * tokens and lock out all clients. */
static void nuls_are_no_blanks_behind_a_line(void **state)
{
    static const char zeros[64];
    static const char behind[] = "ci:" ZEROS "\0\0\n";
    struct error err = ERROR_INIT;
    struct token_list *list = NULL;
    (void)state;
    assert_int_equal(parse(zeros, sizeof zeros, &list, &err), STATUS_INVALID_FIELD);
    assert_int_equal(parse(behind, sizeof behind - 1, &list, &err), STATUS_INVALID_FIELD);
    assert_null(list);
}

static void a_file_has_as_many_tokens_as_are_compared(void **state)
{
    const size_t bytes = strlen("name:" ZEROS "\n");
    char *text = malloc((TOKENS_MAX + 1) * bytes + 1);
    struct error err = ERROR_INIT;
    struct token_list *list = NULL;
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i <= TOKENS_MAX; i++) {
        (void)sprintf(text + i * bytes, "name:%064zx\n", i);
    }
    assert_int_equal(parse(text, TOKENS_MAX * bytes, &list, &err), STATUS_OK);
    assert_int_equal(list->count, TOKENS_MAX);
    free(list);
    assert_int_equal(parse(text, (TOKENS_MAX + 1) * bytes, &list, &err), STATUS_INVALID_FIELD);
    free(text);
}

/* Open a token file with this text. */
static struct tokens *open_file(const char *text)
{
    char path[] = "/tmp/tally-test-tokens-XXXXXX";
    struct error err = ERROR_INIT;
    struct tokens *tokens = NULL;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(tokens_open(path, NULL, &tokens, &err), STATUS_OK);
    (void)remove(path);
    return tokens;
}

/* Open a token file with the tokens foo (of client ci) and baz (of client batch). */
static struct tokens *open_tokens(void)
{
    return open_file("ci:" FOO "\nbatch:" BAZ "\n");
}

static void a_presented_token_is_overwritten_whether_it_is_right_or_wrong(void **state)
{
    struct error err = ERROR_INIT;
    const struct address peer = {.family = AF_UNIX};
    char name[TOKEN_NAME_BYTES] = "";
    char right[] = "Bearer foo";
    char wrong[] = "Bearer bar";
    struct tokens *tokens = open_tokens();
    (void)state;
    assert_int_equal(tokens_check(tokens, &peer, right, ROUTE_SCOPE_INFER, name, &err),
                     STATUS_OK);
    assert_string_equal(name, "ci");
    assert_string_equal(right, "Bearer ***");
    assert_int_equal(tokens_check(tokens, &peer, wrong, ROUTE_SCOPE_INFER, name, &err),
                     STATUS_UNAUTHORIZED);
    assert_string_equal(wrong, "Bearer ***");
    tokens_close(tokens);
}

static enum status present_from(const struct address *peer, struct tokens *tokens,
                                const char *token)
{
    struct error err = ERROR_INIT;
    char name[TOKEN_NAME_BYTES] = "";
    char field[64];
    (void)snprintf(field, sizeof field, "Bearer %s", token);
    return tokens_check(tokens, peer, field, ROUTE_SCOPE_INFER, name, &err);
}

static enum status present(struct tokens *tokens, const char *token)
{
    const struct address peer = {.family = AF_UNIX};
    return present_from(&peer, tokens, token);
}

static void a_client_that_goes_on_with_an_old_token_is_told_so_each_time(void **state)
{
    static const char *const old[] = {"old", "older", "oldest", "of-another-server"};
    struct tokens *tokens = open_tokens();
    enum status status = STATUS_OK;
    (void)state;
    for (size_t i = 0; i < 400; i++) {
        assert_int_equal(present(tokens, old[i % 4]), STATUS_UNAUTHORIZED);
    }
    for (int i = 0; i < 40; i++) {
        char guess[32];
        (void)snprintf(guess, sizeof guess, "guess-%d", i);
        status = present(tokens, guess);
    }
    assert_int_equal(status, STATUS_THROTTLED);
    tokens_close(tokens);
}

/* Neither of the two tokens was presented from this address before the guesses began. */
static void right_tokens_are_served_amid_guesses_from_their_address(void **state)
{
    struct tokens *tokens = open_tokens();
    size_t throttled = 0;
    (void)state;
    for (int i = 0; i < 300; i++) {
        char guess[32];
        (void)snprintf(guess, sizeof guess, "guess-%d", i);
        throttled += present(tokens, guess) == STATUS_THROTTLED;
        assert_int_equal(present(tokens, i % 2 == 0 ? "foo" : "baz"), STATUS_OK);
    }
    assert_true(throttled > 0);
    tokens_close(tokens);
}

static void an_address_has_ten_guesses_and_one_more_each_second(void **state)
{
    struct tokens *tokens = open_tokens();
    const uint64_t from_ns = clock_now_ns();
    uint64_t count = 0;
    (void)state;
    for (int i = 0; i < 40; i++) {
        char guess[32];
        (void)snprintf(guess, sizeof guess, "guess-%d", i);
        count += present(tokens, guess) == STATUS_UNAUTHORIZED;
    }
    assert_in_range(count, 10, 10 + (clock_now_ns() - from_ns) / NS_PER_S);
    tokens_close(tokens);
}

static struct address address_from(const char *text)
{
    struct address address = {.family = AF_UNIX};
    assert_true(strcmp(text, "unix") == 0 || address_parse(text, &address));
    return address;
}

/* Guess until guesses are throttled. */
static void guess_from(const struct address *guesser, struct tokens *tokens)
{
    for (int i = 0; i < 40; i++) {
        char guess[32];
        (void)snprintf(guess, sizeof guess, "guess-%d", i);
        (void)present_from(guesser, tokens, guess);
    }
}

/* Return whether a guess from an address is throttled after guesses from another one. */
static bool pays_for_guesses_of(const char *address, const char *other)
{
    struct tokens *tokens = open_tokens();
    const struct address guesser = address_from(other);
    const struct address peer = address_from(address);
    guess_from(&guesser, tokens);
    const enum status status = present_from(&peer, tokens, "one-more");
    assert_true(status == STATUS_UNAUTHORIZED || status == STATUS_THROTTLED);
    assert_int_equal(present_from(&peer, tokens, "foo"), STATUS_OK);
    tokens_close(tokens);
    return status == STATUS_THROTTLED;
}

static void an_address_pays_for_its_own_guesses_and_those_of_its_network(void **state)
{
    (void)state;
    assert_true(pays_for_guesses_of("192.0.2.1", "192.0.2.1"));
    assert_false(pays_for_guesses_of("192.0.2.1", "192.0.2.2"));
    assert_true(pays_for_guesses_of("2001:db8::1", "2001:db8::ffff:0:0:2"));
    assert_false(pays_for_guesses_of("2001:db8::1", "2001:db8:0:1::1"));
    assert_false(pays_for_guesses_of("unix", "::1"));              /* ::1: network 0 */
    assert_false(pays_for_guesses_of("192.0.2.1", "c000:201::1")); /* equal first bytes */
}

/* Guesses come from more addresses than the service remembers. */
static void no_address_pays_for_guesses_of_one_whose_place_it_takes(void **state)
{
    struct tokens *tokens = open_tokens();
    (void)state;
    for (int i = 0; i < 3 * 6000; i++) {
        const struct address peer = {.family = AF_INET,
                                     .bytes = {10, 0, (uint8_t)(i / 768), (uint8_t)(i / 3)}};
        char guess[32];
        (void)snprintf(guess, sizeof guess, "guess-%d", i);
        assert_int_equal(present_from(&peer, tokens, guess), STATUS_UNAUTHORIZED);
    }
    tokens_close(tokens);
}

/* Open a file with the tokens t0, t1, ... of the names n0, n1, ... */
static struct tokens *open_many(size_t count)
{
    char *text = malloc(count * 100 + 1);
    assert_non_null(text);
    char *end = text;
    for (size_t i = 0; i < count; i++) {
        char token[32];
        uint8_t hash[TOKEN_HASH_BYTES];
        (void)snprintf(token, sizeof token, "t%zu", i);
        assert_int_equal(gnutls_hash_fast(GNUTLS_DIG_SHA256, token, strlen(token), hash), 0);
        end += sprintf(end, "n%zu:", i);
        for (size_t k = 0; k < sizeof hash; k++) {
            end += sprintf(end, "%02x", hash[k]);
        }
        end = stpcpy(end, "\n");
    }
    struct tokens *tokens = open_file(text);
    free(text);
    return tokens;
}

static uint64_t processor_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Return the least processor time for some tokens, alternately right and wrong. */
static uint64_t cost_of_tokens(struct tokens *tokens)
{
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < 20; round++) {
        const uint64_t from = processor_ns();
        for (int i = 0; i < 20; i++) {
            assert_int_equal(present(tokens, "t0"), STATUS_OK);
            assert_int_equal(present(tokens, "wrong"), STATUS_UNAUTHORIZED);
        }
        const uint64_t took = processor_ns() - from;
        least = took < least ? took : least;
    }
    return least;
}

static void each_of_many_tokens_is_known_by_its_name(void **state)
{
    struct tokens *tokens = open_many(TOKENS_MAX);
    const struct address peer = {.family = AF_UNIX};
    (void)state;
    for (size_t i = 0; i < TOKENS_MAX; i++) {
        struct error err = ERROR_INIT;
        char name[TOKEN_NAME_BYTES] = "";
        char expected[32];
        char field[64];
        (void)snprintf(field, sizeof field, "Bearer t%zu", i);
        (void)snprintf(expected, sizeof expected, "n%zu", i);
        assert_int_equal(tokens_check(tokens, &peer, field, ROUTE_SCOPE_INFER, name, &err),
                         STATUS_OK);
        assert_string_equal(name, expected);
    }
    tokens_close(tokens);
}

static void a_token_costs_no_more_beside_thousands_of_others(void **state)
{
    enum {
        TIMES = 4
    };
    struct tokens *few = open_many(2);
    struct tokens *many = open_many(TOKENS_MAX);
    (void)state;
    assert_true(cost_of_tokens(many) < TIMES * cost_of_tokens(few));
    tokens_close(few);
    tokens_close(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_names_hashes_and_scopes),
        cmocka_unit_test(a_file_without_a_token_is_refused),
        cmocka_unit_test(two_lines_with_one_hash_are_refused_by_their_numbers),
        cmocka_unit_test(every_other_line_is_refused_by_number),
        cmocka_unit_test(a_name_with_a_nul_inside_is_refused),
        cmocka_unit_test(nuls_are_no_blanks_behind_a_line),
        cmocka_unit_test(a_file_has_as_many_tokens_as_are_compared),
        cmocka_unit_test(a_presented_token_is_overwritten_whether_it_is_right_or_wrong),
        cmocka_unit_test(an_address_has_ten_guesses_and_one_more_each_second),
        cmocka_unit_test(an_address_pays_for_its_own_guesses_and_those_of_its_network),
        cmocka_unit_test(no_address_pays_for_guesses_of_one_whose_place_it_takes),
        cmocka_unit_test(a_client_that_goes_on_with_an_old_token_is_told_so_each_time),
        cmocka_unit_test(each_of_many_tokens_is_known_by_its_name),
        cmocka_unit_test(right_tokens_are_served_amid_guesses_from_their_address),
        cmocka_unit_test(a_token_costs_no_more_beside_thousands_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
