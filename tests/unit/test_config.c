/* config.h: every flag on the command line and in the environment, bounds, suffixes, helpful
 * errors, generated texts. */
#include "kernels/machine.h"
#include "server/base/config.h"
#include "server/base/machine.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WORDS = 8
};

/* Parse a command line of up to WORDS words, in an environment of up to WORDS variables. */
static enum status parse(const char *const *words, const char *const *environment,
                         struct config *config, struct error *err)
{
    const char *argv[WORDS + 2] = {"tallyd"};
    int argc = 1;
    for (; words != NULL && words[argc - 1] != NULL; argc++) {
        argv[argc] = words[argc - 1];
    }
    *err = (struct error)ERROR_INIT;
    return config_parse(argc, argv, environment, config, err);
}

#define PARSE(config, err, ...) parse((const char *[]){__VA_ARGS__, NULL}, NULL, config, err)

static void expect_refused(const char *word, const char *value, const char *message)
{
    struct config config;
    struct error err;
    assert_int_equal(PARSE(&config, &err, word, value), STATUS_INVALID_REQUEST);
    assert_string_equal(err.detail, message);
    config_deinit(&config);
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(parse(NULL, NULL, &config, &err), STATUS_OK);
    assert_int_equal(config.action, CONFIG_RUN);
    assert_int_equal(config.listen.count, 1);
    assert_string_equal(config.listen.items[0], "127.0.0.1:8000");
    assert_true(config.max_body_bytes == 4 * SIZE_GIB);
    assert_int_equal(config.max_rank, 64);
    assert_true(config.idle_timeout_s > 60);
    assert_false(config.allow_client_shm);
    assert_string_equal(config.devices, "all");
    assert_int_equal(config.log_format, 0);
    config_deinit(&config);
}

static void defaults_that_depend_on_the_machine_are_filled_in(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    const char *environment[] = {NULL};
    assert_int_equal(parse(NULL, environment, &config, &err), STATUS_OK);
    assert_true(config.memory_budget > SIZE_MIB);
    /* The default is one half. */
    assert_true(config.memory_budget <= machine_available_bytes() * 3 / 4);
    assert_int_equal(config.cpus, machine_cores());
    assert_int_equal(config.codec_threads, machine_cores());
    config_deinit(&config);
}

/* Pretended memory of a container; 0: the memory of this machine. */
static uint64_t pretended_bytes;

uint64_t __real_machine_available_bytes(void);
uint64_t __wrap_machine_available_bytes(void);
uint64_t __wrap_machine_available_bytes(void)
{
    return pretended_bytes != 0 ? pretended_bytes : __real_machine_available_bytes();
}

static void there_are_as_many_connections_as_the_memory_has_room_for(void **state)
{
    (void)state;
    static const struct {
        uint64_t available;
        uint64_t connections;
    } rows[] = {{16 * SIZE_MIB, 64},  {256 * SIZE_MIB, 512},           {512 * SIZE_MIB, 1024},
                {2 * SIZE_GIB, 4096}, {2 * SIZE_GIB - SIZE_MIB, 4094}, {256 * SIZE_GIB, 4096}};
    struct config config;
    struct error err;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        pretended_bytes = rows[i].available;
        assert_int_equal(parse(NULL, NULL, &config, &err), STATUS_OK);
        assert_int_equal(config.max_connections, rows[i].connections);
        assert_int_equal(config.memory_budget, rows[i].available / 2);
        config_deinit(&config);
        assert_int_equal(PARSE(&config, &err, "--max-connections=5000"), STATUS_OK);
        assert_int_equal(config.max_connections, 5000); /* the operator's number is kept */
        config_deinit(&config);
    }
    pretended_bytes = 0;
}

/* Pretended number of cores; 0: the number of this machine. */
static size_t pretended_cores;

size_t __real_machine_cores(void);
size_t __wrap_machine_cores(void);
size_t __wrap_machine_cores(void)
{
    return pretended_cores != 0 ? pretended_cores : __real_machine_cores();
}

static void a_large_machine_gets_no_thread_for_each_of_its_cores(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    pretended_cores = 768;
    assert_int_equal(parse(NULL, NULL, &config, &err), STATUS_OK);
    assert_int_equal(config.cpus, 256);
    assert_int_equal(config.codec_threads, 64);
    assert_int_equal(config.http_loops, 4);
    config_deinit(&config);
    pretended_cores = 3;
    assert_int_equal(parse(NULL, NULL, &config, &err), STATUS_OK);
    assert_int_equal(config.http_loops, 3);
    config_deinit(&config);
    pretended_cores = 40;
    assert_int_equal(parse(NULL, NULL, &config, &err), STATUS_OK);
    assert_int_equal(config.cpus, 40);
    assert_int_equal(config.codec_threads, 40);
    config_deinit(&config);
    assert_int_equal(PARSE(&config, &err, "--cpus=200", "--codec-threads=100"), STATUS_OK);
    assert_int_equal(config.cpus, 200);
    assert_int_equal(config.codec_threads, 100);
    config_deinit(&config);
    pretended_cores = 0;
}

static void values_come_after_a_space_or_an_equals_sign(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(PARSE(&config, &err, "--max-rank", "8", "--queue-depth=77",
                           "--base-path=", "--shm-key-prefix", ""),
                     STATUS_OK);
    assert_int_equal(config.max_rank, 8);
    assert_int_equal(config.queue_depth, 77);
    assert_string_equal(config.base_path, "");
    assert_string_equal(config.shm_key_prefix, "");
    config_deinit(&config);
}

static void sizes_take_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {{"1", 1},           {"65536", 65536},      {"64 KiB", 65536},
                {"1TiB", SIZE_TIB}, {"2Gi", 2 * SIZE_GIB}, {"2G", 2000000000}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct config config;
        struct error err;
        assert_int_equal(PARSE(&config, &err, "--max-body-bytes", rows[i].text), STATUS_OK);
        assert_true(config.max_body_bytes == rows[i].bytes);
        config_deinit(&config);
    }
}

static void booleans_stand_alone_or_are_set(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(PARSE(&config, &err, "--allow-client-shm", "--log-requests=false"),
                     STATUS_OK);
    assert_true(config.allow_client_shm);
    assert_false(config.log_requests);
    config_deinit(&config);
    assert_int_equal(PARSE(&config, &err, "--log-requests", "0", "--allow-client-shm", "true"),
                     STATUS_OK);
    assert_true(config.allow_client_shm);
    assert_false(config.log_requests);
    config_deinit(&config);
}

static void flags_win_over_variables_and_lists_are_replaced_not_mixed(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    const char *environment[] = {"TALLY_MAX_RANK=5", "TALLY_LISTEN=unix:/a, [::1]:80",
                                 "TALLY_LOG_FORMAT=json", "TALLY_PORT=tcp://10.0.0.1:80", NULL};
    const char *words[] = {"--max-rank", "6", NULL};
    assert_int_equal(parse(words, environment, &config, &err), STATUS_OK);
    assert_int_equal(config.max_rank, 6);
    assert_int_equal(config.log_format, 1);
    assert_int_equal(config.listen.count, 2);
    assert_string_equal(config.listen.items[0], "unix:/a");
    assert_string_equal(config.listen.items[1], "[::1]:80");
    config_deinit(&config);
    const char *listens[] = {"--listen", "a:1", "--listen=b:2", NULL};
    assert_int_equal(parse(listens, environment, &config, &err), STATUS_OK);
    assert_int_equal(config.listen.count, 2);
    assert_string_equal(config.listen.items[0], "a:1");
    assert_string_equal(config.listen.items[1], "b:2");
    config_deinit(&config);
}

static void a_bad_variable_is_named(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    const char *environment[] = {"TALLY_MAX_RANK=many", NULL};
    assert_int_equal(parse(NULL, environment, &config, &err), STATUS_INVALID_REQUEST);
    assert_string_equal(err.detail, "TALLY_MAX_RANK: \"many\" is not a whole number");
    config_deinit(&config);
}

static void an_unknown_variable_is_refused_with_the_nearest_known_one(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        const char *message;
    } rows[] = {
        {"TALLY_QUEUE_DEPHT=7", "unknown variable TALLY_QUEUE_DEPHT; did you mean "
                                "TALLY_QUEUE_DEPTH? (--allow-unknown-env starts all the same)"},
        {"TALLY_MAX_BODY=4Gi",
         "unknown variable TALLY_MAX_BODY; did you mean "
         "TALLY_MAX_BODY_BYTES? (--allow-unknown-env starts all the same)"},
        {"TALLY_QUITE_ANOTHER_THING=", "unknown variable TALLY_QUITE_ANOTHER_THING; tallyd "
                                       "--help lists the settings (--allow-unknown-env starts "
                                       "all the same)"},
        {"TALLY_PORT=8080", "unknown variable TALLY_PORT; tallyd --help lists the settings "
                            "(--allow-unknown-env starts all the same)"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *environment[] = {"PATH=/bin", "TALLY_MAX_RANK=8", rows[i].variable, NULL};
        const char *const allowed[] = {"--allow-unknown-env", NULL};
        const char *const help[] = {"--help", NULL};
        struct config config;
        struct error err;
        assert_int_equal(parse(NULL, environment, &config, &err), STATUS_INVALID_REQUEST);
        assert_string_equal(err.detail, rows[i].message);
        config_deinit(&config);
        assert_int_equal(parse(allowed, environment, &config, &err), STATUS_OK);
        assert_int_equal(config.max_rank, 8);
        config_deinit(&config);
        assert_int_equal(parse(help, environment, &config, &err), STATUS_OK);
        config_deinit(&config);
    }
}

static void a_variable_of_any_length_is_survived(void **state)
{
    (void)state;
    char *variable = malloc(100001);
    memset(variable, 'A', 100000);
    memcpy(variable, "TALLY_", 6);
    memcpy(variable + 99998, "=1", 3);
    const char *environment[] = {variable, NULL};
    struct config config;
    struct error err;
    assert_int_equal(parse(NULL, environment, &config, &err), STATUS_INVALID_REQUEST);
    config_deinit(&config);
    free(variable);
}

/* Variable names as Kubernetes sets them for the services `tally` and `tally-dask` ("Accessing
 * the Service" in its documentation). */
static void variables_of_other_programs_are_ignored(void **state)
{
    (void)state;
    const char *environment[] = {"TALLY_URL=http://127.0.0.1:8000",
                                 "TALLY_TOKEN=secret",
                                 "TALLY_OPENCL_THREADS=2",
                                 "TALLY_TEST_CL_FAULT=skip=1",
                                 "TALLY_NO_INSTALL=1",
                                 "TALLY_SERVICE_HOST=10.0.0.1",
                                 "TALLY_SERVICE_PORT=8000",
                                 "TALLY_SERVICE_PORT_HTTP=8000",
                                 "TALLY_PORT=tcp://10.0.0.1:8000",
                                 "TALLY_PORT_8000_TCP=tcp://10.0.0.1:8000",
                                 "TALLY_PORT_8000_TCP_PROTO=tcp",
                                 "TALLY_PORT_8000_TCP_PORT=8000",
                                 "TALLY_PORT_8000_TCP_ADDR=10.0.0.1",
                                 "TALLY_DASK_SERVICE_HOST=10.0.0.2",
                                 "TALLY_DASK_PORT=tcp://10.0.0.2:8786",
                                 "TALLYD=/usr/bin/tallyd",
                                 NULL};
    struct config config;
    struct error err;
    assert_int_equal(parse(NULL, environment, &config, &err), STATUS_OK);
    config_deinit(&config);
}

static void a_text_has_as_many_characters_as_it_may(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(PARSE(&config, &err, "--socket-mode", "00000660"), STATUS_OK);
    assert_string_equal(config.socket_mode, "00000660");
    config_deinit(&config);
}

static void bad_values_get_a_sentence(void **state)
{
    (void)state;
    expect_refused("--max-rank", "65", "--max-rank: \"65\" is not from 1 to 64 dimensions");
    expect_refused("--max-rank", "0", "--max-rank: \"0\" is not from 1 to 64 dimensions");
    expect_refused("--max-rank", "-1", "--max-rank: \"-1\" is not a whole number");
    expect_refused("--max-rank", "8KiB", "--max-rank: \"8KiB\" is not a whole number");
    expect_refused("--max-rank", "", "--max-rank: \"\" is not a whole number");
    expect_refused("--queue-depth", "99999999999999999999",
                   "--queue-depth: \"99999999999999999999\" is not a whole number");
    expect_refused("--max-header-bytes", "1K",
                   "--max-header-bytes: \"1K\" is not from 4 KiB to 16 MiB");
    expect_refused(
        "--max-body-bytes", "5 parsecs",
        "--max-body-bytes: \"5 parsecs\" is not a number of bytes; write for example 65536, "
        "64KiB, 512Mi or 4GB");
    expect_refused(
        "--max-body-bytes", "99999999TiB",
        "--max-body-bytes: \"99999999TiB\" is not a number of bytes; write for example "
        "65536, 64KiB, 512Mi or 4GB");
    expect_refused("--log-format", "xml", "--log-format: \"xml\" is none of text|json");
    expect_refused("--log-format", "text|json",
                   "--log-format: \"text|json\" is none of text|json");
    expect_refused("--log-requests=maybe", NULL,
                   "--log-requests: \"maybe\" is neither true nor false");
    expect_refused("--listen", "a:1,,b:2", "--listen: an entry is empty");
    expect_refused("--listen",
                   "a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1,j:1,k:1,l:1,m:1,n:1,o:1,p:1,q:1",
                   "--listen: more than 16 entries");
    expect_refused("--devices", "", "--devices: a text is needed");
    expect_refused("--listen", "", "--listen: an entry is empty");
    expect_refused("--socket-mode", "000000660", "--socket-mode: the text is too long");
    expect_refused("--listen", NULL, "--listen needs a value (address)");
    static const char *const useless[] = {"tally", "/tally/", "/",    "/a%20b",
                                          "/a b",  "/a?b",    "/a#b", "/\xc3\xbc"};
    for (size_t i = 0; i < ARRAY_COUNT(useless); i++) {
        char says[160];
        (void)snprintf(
            says, sizeof says,
            "--base-path: \"%s\" is no prefix of paths as URLs have them; write it "
            "with a slash in front, none behind, and without escapes, such as /tally",
            useless[i]);
        expect_refused("--base-path", useless[i], says);
    }
    expect_refused("--print-config", "json",
                   "--print-config prints one thing: write --print-config env");
}

static void a_base_path_that_clients_shorten_is_refused(void **state)
{
    static const char *const shortened[] = {"/.",     "/..",     "//a",     "/a//b",
                                            "/a/./b", "/../a/b", "/a/../b", "/a/.."};
    static const char *const kept[] = {"/...", "/a/.b", "/..a/b.", "/a/b..c"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(shortened); i++) {
        char says[200];
        (void)snprintf(says, sizeof says,
                       "--base-path: \"%s\" has a part that is empty, . or .., and clients "
                       "shorten such a path before they ask for it; write it without, such as "
                       "/tally",
                       shortened[i]);
        expect_refused("--base-path", shortened[i], says);
    }
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++) {
        struct config config;
        struct error err;
        assert_int_equal(PARSE(&config, &err, "--base-path", kept[i]), STATUS_OK);
        config_deinit(&config);
    }
}

static void an_unknown_flag_gets_a_suggestion(void **state)
{
    (void)state;
    expect_refused("--queue-dept", "1",
                   "unknown flag --queue-dept; did you mean --queue-depth?");
    expect_refused("--max_rank", "1", "unknown flag --max_rank; did you mean --max-rank?");
    expect_refused("--body-timeout", "1",
                   "unknown flag --body-timeout; did you mean --body-timeout-ms?");
    expect_refused("--hlep", NULL, "unknown flag --hlep; did you mean --help?");
    expect_refused("--lop", NULL, "unknown flag --lop; tallyd --help lists them");
    expect_refused("--l", NULL, "unknown flag --l; tallyd --help lists them");
    expect_refused("--quite-another-thing", NULL,
                   "unknown flag --quite-another-thing; tallyd --help lists them");
    expect_refused("serve", NULL, "\"serve\" is not a flag; tallyd --help lists them");
}

static void a_flag_of_any_length_is_survived(void **state)
{
    (void)state;
    char *word = malloc(100001);
    memset(word, 'a', 100000);
    word[0] = word[1] = '-';
    word[100000] = '\0';
    struct config config;
    struct error err;
    assert_int_equal(PARSE(&config, &err, word), STATUS_INVALID_REQUEST);
    config_deinit(&config);
    free(word);
}

static void other_actions_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *words[3];
        enum config_action action;
    } rows[] = {{{"--help"}, CONFIG_HELP},
                {{"-h"}, CONFIG_HELP},
                {{"--version"}, CONFIG_VERSION},
                {{"-V"}, CONFIG_VERSION},
                {{"--list-devices"}, CONFIG_LIST_DEVICES},
                {{"--print-config", "env"}, CONFIG_PRINT_ENV}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct config config;
        struct error err;
        assert_int_equal(parse(rows[i].words, NULL, &config, &err), STATUS_OK);
        assert_int_equal(config.action, rows[i].action);
        config_deinit(&config);
    }
}

static char *text_of(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    print(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Return the text of a file below the top folder; free() releases it. */
static char *text_in(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s: run make and the test in the top folder of the project", path);
        return text;
    }
    size_t bytes = fread(text, 1, 65535, file);
    (void)fclose(file);
    assert_int_equal(bytes, strlen(text));
    return text;
}

static void help_names_every_flag_and_fits_100_columns(void **state)
{
    (void)state;
    char *help = text_of(config_print_help);
    for (size_t i = 0; i < config_row_count; i++) {
        if (config_rows[i].field != NULL) {
            char flag[64];
            config_flag_name(config_rows[i].field, flag, sizeof flag);
            assert_non_null(strstr(help, flag));
        }
    }
    for (const char *line = help; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_true(strcspn(line, "\n") <= 100);
        assert_true(line == help || line[-1] == '\n');
        assert_false(strcspn(line, "\n") > 0 && strchr(line, '\n')[-1] == ' ');
    }
    free(help);
}

static void expect_tag(const char *page, const char *name)
{
    char tag[128] = ".TP\n\\fB";
    for (size_t at = strlen(tag); *name != '\0'; name++, at = strlen(tag)) {
        (void)snprintf(tag + at, sizeof tag - at, *name == '-' ? "\\-" : "%c", *name);
    }
    if (strstr(page, tag) == NULL) {
        fail_msg("the manual page lacks %s", tag);
    }
}

/* Fail if roff would read a character of the text as a request or an escape. */
static void expect_plain(const char *text)
{
    if (strchr(text, '\\') != NULL || text[0] == '.' || text[0] == '\'') {
        fail_msg("put_text() escapes hyphens alone: \"%s\"", text);
    }
}

static void the_manual_page_has_every_flag_variable_range_and_help(void **state)
{
    (void)state;
    char *page = text_in("build/man/tallyd.8");
    for (size_t i = 0; i < config_row_count; i++) {
        char flag[64];
        char variable[80];
        if (config_rows[i].field == NULL) {
            continue;
        }
        config_flag_name(config_rows[i].field, flag, sizeof flag);
        expect_tag(page, flag);
        expect_plain(config_rows[i].help);
        expect_plain(config_rows[i].unit);
        expect_plain(config_rows[i].initial);
        int written = snprintf(variable, sizeof variable, "Variable: \\fB");
        config_variable_name(config_rows[i].field, variable + written,
                             sizeof variable - (size_t)written);
        assert_non_null(strstr(page, variable));
        /* up to the first hyphen, which roff writes differently */
        size_t plain = strcspn(config_rows[i].help, "-");
        assert_non_null(memmem(page, strlen(page), config_rows[i].help, plain));
    }
    for (size_t i = 0; i < config_action_count; i++) {
        expect_tag(page, config_actions[i].flag);
        expect_plain(config_actions[i].help);
    }
    for (size_t i = 0; i < config_foreign_count; i++) {
        expect_tag(page, config_foreign[i].names);
        expect_plain(config_foreign[i].owner);
        size_t plain = strcspn(config_foreign[i].owner, "-");
        assert_non_null(memmem(page, strlen(page), config_foreign[i].owner, plain));
    }
    assert_non_null(strstr(page, "Default: empty.\nAt most 16.\n"));
    assert_non_null(
        strstr(page, "Default: 1024.\nFrom 1 to 1000000.\nVariable: \\fBTALLY_QUEUE"));
    assert_non_null(
        strstr(page, "\nFrom 4 KiB to 16 MiB.\nVariable: \\fBTALLY_MAX_HEADER_BYTES"));
    assert_non_null(strstr(page, "\nAt most 16.\nVariable: \\fBTALLY_TRUSTED_PROXIES"));
    free(page);
}

static void every_default_is_valid_where_it_is_documented(void **state)
{
    (void)state;
    char *text = text_of(config_print_env);
    size_t variables = 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "#TALLY_", 7) == 0) {
            struct config config;
            struct error err;
            const char *environment[] = {line + 1, NULL};
            assert_int_equal(parse(NULL, environment, &config, &err), STATUS_OK);
            config_deinit(&config);
            variables++;
        }
    }
    size_t fields = 0;
    for (size_t i = 0; i < config_row_count; i++) {
        fields += config_rows[i].field != NULL;
    }
    assert_int_equal(variables, fields);
    free(text);
}

static void the_example_environment_file_is_current(void **state)
{
    (void)state;
    char *expected = text_of(config_print_env);
    char *committed = text_in("deploy/tallyd.env.example");
    if (strcmp(expected, committed) != 0) {
        fail_msg("write it anew: tallyd --print-config env > deploy/tallyd.env.example");
    }
    free(expected);
    free(committed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(defaults_that_depend_on_the_machine_are_filled_in),
        cmocka_unit_test(there_are_as_many_connections_as_the_memory_has_room_for),
        cmocka_unit_test(a_large_machine_gets_no_thread_for_each_of_its_cores),
        cmocka_unit_test(values_come_after_a_space_or_an_equals_sign),
        cmocka_unit_test(sizes_take_suffixes),
        cmocka_unit_test(booleans_stand_alone_or_are_set),
        cmocka_unit_test(flags_win_over_variables_and_lists_are_replaced_not_mixed),
        cmocka_unit_test(a_bad_variable_is_named),
        cmocka_unit_test(an_unknown_variable_is_refused_with_the_nearest_known_one),
        cmocka_unit_test(a_variable_of_any_length_is_survived),
        cmocka_unit_test(variables_of_other_programs_are_ignored),
        cmocka_unit_test(a_text_has_as_many_characters_as_it_may),
        cmocka_unit_test(bad_values_get_a_sentence),
        cmocka_unit_test(a_base_path_that_clients_shorten_is_refused),
        cmocka_unit_test(an_unknown_flag_gets_a_suggestion),
        cmocka_unit_test(a_flag_of_any_length_is_survived),
        cmocka_unit_test(other_actions_are_recognised),
        cmocka_unit_test(help_names_every_flag_and_fits_100_columns),
        cmocka_unit_test(the_manual_page_has_every_flag_variable_range_and_help),
        cmocka_unit_test(every_default_is_valid_where_it_is_documented),
        cmocka_unit_test(the_example_environment_file_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
