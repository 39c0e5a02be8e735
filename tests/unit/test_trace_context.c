/* trace_context.h: valid and invalid traceparent and tracestate fields. */
#include "server/base/trace_context.h"
#include "tests/lib/unit.h"

#include <string.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"
#define WHOLE "00-" TRACE "-" SPAN "-01"

static void a_traceparent_is_taken_over_with_a_span_of_our_own(void **state)
{
    struct trace_context context;
    char text[TRACE_PARENT_CHARS + 1];
    (void)state;
    assert_true(trace_context_read(WHOLE, 0x1122334455667788, &context));
    assert_true(trace_context_is_set(&context));
    assert_int_equal(context.trace[0], 0x0af7651916cd43dd);
    assert_int_equal(context.trace[1], 0x8448eb211c80319c);
    assert_int_equal(context.parent, 0xb7ad6b7169203331);
    trace_context_text(&context, text);
    assert_string_equal(text, "00-" TRACE "-1122334455667788-01");
}

static void flags_that_mean_nothing_yet_are_not_passed_on(void **state)
{
    static const struct {
        const char *came;
        const char *goes;
    } cases[] = {{"00", "-00"}, {"01", "-01"}, {"02", "-02"},
                 {"03", "-03"}, {"ff", "-03"}, {"04", "-00"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace_context context;
        char text[TRACE_PARENT_CHARS + 1] = "00-" TRACE "-" SPAN "-";
        memcpy(text + 53, cases[i].came, 3);
        assert_true(trace_context_read(text, 8, &context));
        trace_context_text(&context, text);
        assert_string_equal(text + 52, cases[i].goes);
    }
}

static void traceparents_of_later_versions_and_with_blanks_are_read(void **state)
{
    static const char *const texts[] = {"01-" TRACE "-" SPAN "-01",
                                        "cc-" TRACE "-" SPAN "-01-what-the-future-brings",
                                        "fe-" TRACE "-" SPAN "-01-", " \t" WHOLE " \t"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct trace_context context;
        assert_true(trace_context_read(texts[i], 8, &context));
        assert_int_equal(context.parent, 0xb7ad6b7169203331);
    }
}

static void an_invalid_traceparent_is_not_read(void **state)
{
    static const char *const texts[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-01-more",
        "00-" TRACE "-" SPAN "-011",
        "01-" TRACE "-" SPAN "-01.more",
        "cc-" TRACE "-" SPAN "-01more",
        "ff-" TRACE "-" SPAN "-01",
        "0-" TRACE "-" SPAN "-010",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-" TRACE "-B7AD6B7169203331-01",
        "00-.af7651916cd43dd8448eb211c80319c-" SPAN "-01",
        "00-" TRACE "-.7ad6b7169203331-01",
        "00-" TRACE "-" SPAN "-.1",
        "00-" TRACE "-" SPAN "-0.",
        ".0-" TRACE "-" SPAN "-01",
        "0x-" TRACE "-" SPAN "-01",
        "00-af7651916cd43dd8448eb211c80319c-" SPAN "-010",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        WHOLE "," WHOLE,
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct trace_context context = {.parent = 7};
        assert_false(trace_context_read(texts[i], 8, &context));
        assert_int_equal(context.parent, 7); /* untouched */
    }
}

static void a_trace_that_begins_has_ids_of_its_own_that_are_never_zero(void **state)
{
    static const uint64_t random[] = {0, 0, 0};
    struct trace_context context;
    char text[TRACE_PARENT_CHARS + 1];
    (void)state;
    trace_context_begin(&context, random);
    assert_int_equal(context.parent, 0);
    trace_context_text(&context, text);
    assert_string_equal(text, "00-00000000000000000000000000000001-0000000000000008-02");
    assert_true(trace_context_read(text, UINT64_MAX, &context));
    assert_int_equal(context.span, UINT64_MAX - 7); /* leaves room for the ids of its stages */
}

/* Return the tracestate that results from these fields. */
static const char *joined(const char *const *fields, size_t count)
{
    static struct trace_context context;
    trace_context_read_state(fields, count, &context);
    return context.state;
}
#define JOINED(...)                            \
    joined((const char *const[]){__VA_ARGS__}, \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static char long_text[1024];
static const char *repeat(const char *head, char c, int count, const char *tail)
{
    char *end = stpcpy(long_text, head);
    memset(end, c, (size_t)count);
    (void)stpcpy(end + count, tail);
    return long_text;
}

static void the_fields_of_a_tracestate_are_joined_in_their_order(void **state)
{
    (void)state;
    assert_string_equal(JOINED("foo=1,bar=2"), "foo=1,bar=2");
    assert_string_equal(JOINED("foo=1", "bar=2", "a@b=3"), "foo=1,bar=2,a@b=3");
    assert_string_equal(JOINED("foo=1,fo=2", "foot=3"), "foo=1,fo=2,foot=3");
    assert_string_equal(JOINED(" foo=1 \t,\t bar=2 "), "foo=1,bar=2");
    assert_string_equal(JOINED(",, foo=1,", "", " "), "foo=1");
    assert_string_equal(JOINED("foo=a b", "0t@s_-*/9=!~"), "foo=a b,0t@s_-*/9=!~");
    assert_string_equal(JOINED(repeat("", 'k', 256, "=v")), long_text);
    assert_string_equal(JOINED(repeat("k=", 'v', 256, "")), long_text);
    assert_string_equal(JOINED(repeat("", 't', 241, "@abcdefghijklmn=v")), long_text);
}

static void a_tracestate_with_one_thing_wrong_is_not_passed_on(void **state)
{
    static const char *const wrong[] = {"foo",
                                        "foo=",
                                        "=1",
                                        "foo =1",
                                        "FOO=1",
                                        "foo.bar=1",
                                        "0foo=1",
                                        "_foo=1",
                                        "foo@=1",
                                        "@foo=1",
                                        "foo@@bar=1",
                                        "foo@bar@baz=1",
                                        "foo@0b=1",
                                        "foo=1=2",
                                        "foo=b\xc3\xa4r",
                                        "foo=1;bar=2, foo=1",
                                        "foo=1,foo=2"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_string_equal(JOINED(wrong[i]), "");
        assert_string_equal(JOINED("good=1", wrong[i]), "");
    }
    assert_string_equal(JOINED("foo=1", "foo=1"), "");
    assert_string_equal(JOINED(repeat("", 'k', 257, "=v")), "");
    assert_string_equal(JOINED(repeat("k=", 'v', 257, "")), "");
    assert_string_equal(JOINED(repeat("", 't', 242, "@s=v")), "");
    assert_string_equal(JOINED("t@abcdefghijklmno=v"), "");
}

static void a_tracestate_has_at_most_32_members_and_512_characters(void **state)
{
    char text[512] = "";
    char *end = text;
    (void)state;
    for (int i = 0; i < 32; i++) {
        *end++ = (char)('a' + i % 26);
        *end++ = i < 26 ? 'a' : 'b';
        end = stpcpy(end, "=1,");
    }
    end[-1] = '\0';
    assert_string_equal(JOINED(text), text);
    assert_string_equal(JOINED(text, "one=more"), "");
    assert_int_equal(strlen(JOINED("k=1", repeat("a=", 'v', 252, ""),
                                   "b=123456789,c=123456789,d=123456789")),
                     3 + 1 + 254 + 36);
    assert_string_equal(JOINED(repeat("a=", 'v', 254, ""), repeat("a=", 'v', 254, "")), "");
    char second[300];
    memcpy(second, repeat("b=", 'v', 253, ""), 256);
    assert_int_equal(strlen(JOINED(repeat("a=", 'v', 254, ""), second)), 512);
    memcpy(second, repeat("b=", 'v', 254, ""), 257);
    assert_string_equal(JOINED(repeat("a=", 'v', 254, ""), second), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_taken_over_with_a_span_of_our_own),
        cmocka_unit_test(flags_that_mean_nothing_yet_are_not_passed_on),
        cmocka_unit_test(traceparents_of_later_versions_and_with_blanks_are_read),
        cmocka_unit_test(an_invalid_traceparent_is_not_read),
        cmocka_unit_test(a_trace_that_begins_has_ids_of_its_own_that_are_never_zero),
        cmocka_unit_test(the_fields_of_a_tracestate_are_joined_in_their_order),
        cmocka_unit_test(a_tracestate_with_one_thing_wrong_is_not_passed_on),
        cmocka_unit_test(a_tracestate_has_at_most_32_members_and_512_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
