/* proxies.h: which address in a list is the client, and whether the client is local. */
#include "server/http/proxies.h"

#include "proto/macros.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* Parse the networks of a flag, at most four. */
static enum status parse(const char *const texts[4], struct proxies *proxies, struct error *err)
{
    char copies[4][64];
    struct config_list list = {.count = 0};
    for (size_t i = 0; i < 4 && texts[i] != NULL; i++) {
        (void)snprintf(copies[i], sizeof copies[i], "%s", texts[i]);
        list.items[list.count++] = copies[i];
    }
    return proxies_parse(&list, proxies, err);
}

/* "unix": a client at a Unix socket. */
static struct address address_from(const char *text)
{
    struct address address = {.family = AF_UNIX};
    assert_true(strcmp(text, "unix") == 0 || address_parse(text, &address));
    return address;
}

/* Check which client results from one field and a peer, in the form of the log. */
static void expect_client(const char *const trusted[4], const char *peer, const char *field,
                          const char *client, bool is_local)
{
    struct proxies proxies;
    struct error err = ERROR_INIT;
    char text[INET6_ADDRSTRLEN];
    assert_int_equal(parse(trusted, &proxies, &err), STATUS_OK);
    struct address found = address_from(peer);
    bool local = address_is_local(&found);
    const bool named = proxies_client(&proxies, &field, 1, &found, &local);
    address_text(&found, text, sizeof text);
    assert_string_equal(text, client);
    assert_int_equal(named, strcmp(client, peer) != 0);
    assert_int_equal(local, is_local);
}

static void a_network_ends_at_any_bit(void **state)
{
    static const struct {
        const char *network;
        const char *inside;
        const char *outside;
    } rows[] = {{"10.1.2.0/23", "10.1.3.255", "10.1.4.0"},
                {"10.1.2.3", "10.1.2.3", "10.1.2.2"},
                {"128.0.0.0/1", "255.255.255.255", "127.255.255.255"},
                {"192.0.2.129/25", "192.0.2.128", "192.0.2.127"},
                {"0.0.0.0/0", "203.0.113.9", "::1"},
                {"::/0", "2001:db8::1", "203.0.113.9"},
                {"fc00::/7", "fdff::1", "fe00::1"},
                {"2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"},
                {"2001:db8::1", "2001:db8::1", "2001:db8::"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *const trusted[4] = {rows[i].network};
        expect_client(trusted, rows[i].inside, "198.51.100.7", "198.51.100.7", false);
        expect_client(trusted, rows[i].outside, "198.51.100.7", rows[i].outside, false);
    }
}

static void a_unix_socket_is_trusted_only_by_its_name(void **state)
{
    static const char *const by_name[4] = {"unix"};
    static const char *const by_number[4] = {"0.0.0.0/0", "::/0"};
    (void)state;
    expect_client(by_name, "unix", "198.51.100.7", "198.51.100.7", false);
    expect_client(by_name, "unix", "127.0.0.1", "127.0.0.1", true);
    expect_client(by_name, "127.0.0.1", "198.51.100.7", "127.0.0.1", false);
    expect_client(by_number, "unix", "198.51.100.7", "unix", false);
}

static void an_entry_may_have_brackets_and_a_port(void **state)
{
    static const struct {
        const char *field;
        const char *client;
    } rows[] = {{"[2001:db8::7]:4711", "2001:db8::7"},  {"[2001:db8::7]", "2001:db8::7"},
                {"2001:db8::7", "2001:db8::7"},         {"198.51.100.7:4711", "198.51.100.7"},
                {" \t198.51.100.7\t ", "198.51.100.7"}, {"[2001:db8::7", "10.0.0.1"},
                {"2001:db8::7]", "10.0.0.1"},           {":4711", "10.0.0.1"}};
    static const char *const trusted[4] = {"10.0.0.1"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        expect_client(trusted, "10.0.0.1", rows[i].field, rows[i].client, false);
    }
}

static void a_client_is_local_only_if_every_address_is_local(void **state)
{
    static const char *const first[4] = {"127.0.0.1", "10.0.0.1"};
    (void)state;
    expect_client(first, "127.0.0.1", "127.9.9.9", "127.9.9.9", true);
    expect_client(first, "127.0.0.1", "::1", "::1", true);
    expect_client(first, "127.0.0.1", "::ffff:127.0.0.2", "127.0.0.2", true);
    expect_client(first, "127.0.0.1", "::2", "::2", false);
    expect_client(first, "127.0.0.1", "127.0.0.2, 10.0.0.1", "127.0.0.2", false);
    static const char *const both[4] = {"127.0.0.1", "127.0.0.5"};
    expect_client(both, "127.0.0.1", "unknown, 127.0.0.5", "127.0.0.5", false);
    expect_client(first, "10.0.0.1", "127.0.0.2", "127.0.0.2", false);
    expect_client(first, "127.0.0.3", "127.0.0.2", "127.0.0.3", false);
}

static void an_invalid_network_is_refused_by_name(void **state)
{
    static const char *const none[] = {"10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/+8", "::/129",
                                       "10.0.0.0/",   "/8",          "10.0.0/8",    "UNIX"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        const char *const texts[4] = {"10.0.0.1", none[i]};
        struct proxies proxies;
        struct error err = ERROR_INIT;
        assert_int_equal(parse(texts, &proxies, &err), STATUS_INVALID_FIELD);
        assert_non_null(strstr(err.detail, none[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_ends_at_any_bit),
        cmocka_unit_test(a_unix_socket_is_trusted_only_by_its_name),
        cmocka_unit_test(an_entry_may_have_brackets_and_a_port),
        cmocka_unit_test(a_client_is_local_only_if_every_address_is_local),
        cmocka_unit_test(an_invalid_network_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
