/* text.h: names, lines, control characters of terminals, and suggestions. */
#include "proto/text.h"
#include "tests/lib/unit.h"

#include <string.h>

static void names_of_tokens_have_1_to_64_letters_digits_and_three_marks(void **state)
{
    (void)state;
    char name[TOKEN_NAME_MOST + 2];
    memset(name, 'a', sizeof name);
    assert_true(text_is_token_name(name, TOKEN_NAME_MOST));
    assert_false(text_is_token_name(name, TOKEN_NAME_MOST + 1));
    assert_false(text_is_token_name(name, 0));
    assert_true(text_is_token_name("Zz09._-", 7));
    static const char *const others[] = {"a b", "a:", "\xC3\xA4", "a/", "@", "[", "`", "{"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(text_is_token_name(others[i], strlen(others[i])));
    }
}

static void control_characters_of_all_kinds_become_marks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *safe;
    } cases[] = {
        {"a\tb\x7F\x1F ", "a?b?? "},
        {"\xC2\x7F\xC2\x80\xC2\x9F\xC2\xA0", "\xC2???\xC2\xA0"},
        {"\xD8\x9B\xD8\x9C\xD8\x9D", "\xD8\x9B?\xD8\x9D"},
        {"\xE2\x80\x8D\xE2\x80\x8E\xE2\x80\x8F\xE2\x80\x90", "\xE2\x80\x8D??\xE2\x80\x90"},
        {"\xE2\x80\xA7\xE2\x80\xA8\xE2\x80\xAE\xE2\x80\xAF", "\xE2\x80\xA7??\xE2\x80\xAF"},
        {"\xE2\x81\xA5\xE2\x81\xA6\xE2\x81\xA9\xE2\x81\xAA", "\xE2\x81\xA5??\xE2\x81\xAA"},
        {"\xE2\x82\xAC\xE2", "\xE2\x82\xAC\xE2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        (void)strcpy(text, cases[i].text);
        text_make_safe(text);
        assert_string_equal(text, cases[i].safe);
    }
}

static void the_distance_counts_letters_that_are_more_less_or_others(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        size_t distance;
    } cases[] = {{"", "", 0},         {"axis", "axis", 0},      {"", "axis", 4},
                 {"axis", "", 4},     {"axs", "axis", 1},       {"axxis", "axis", 1},
                 {"oxis", "axis", 1}, {"kitten", "sitting", 3}, {"xaxis", "axisx", 2},
                 {"abc", "xyz", 3},   {"retries", "reverse", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(edit_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(edit_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}

static void the_nearest_name_is_suggested_if_it_is_near(void **state)
{
    static const struct {
        const char *word;
        const char *suggestion;
    } cases[] = {{"--exclsive", "; did you mean --exclusive?"},
                 {"--AXIS", "; did you mean --axis?"},
                 {"--o", ""}, /* too short to be a useful prefix */
                 {"--outpu", "; did you mean --output?"},
                 {"--output-s", "; did you mean --output-strides?"},
                 {"--frobnicate", ""},
                 {"", ""}};
    static const char *const names[] = {"--output", "--output-strides", "--exclusive",
                                        "--axis"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct suggestion suggestion = suggestion_for(cases[i].word);
        for (size_t k = 0; k < ARRAY_COUNT(names); k++) {
            suggestion_consider(&suggestion, names[k]);
        }
        assert_string_equal(suggestion.text, cases[i].suggestion);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_tokens_have_1_to_64_letters_digits_and_three_marks),
        cmocka_unit_test(control_characters_of_all_kinds_become_marks),
        cmocka_unit_test(the_distance_counts_letters_that_are_more_less_or_others),
        cmocka_unit_test(the_nearest_name_is_suggested_if_it_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
