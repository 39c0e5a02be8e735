/* Runs every script of tests/fuzz/corpus/wire against the service, so that earlier findings of
 * the wire fuzzer are tested without a fuzzer. */
#include "tests/fuzz/wire_script.h"
#include "tests/lib/unit.h"

#include <glob.h>
#include <stdio.h>

enum {
    INPUT_MAX = 1 << 16
};

static void the_wire_corpus_passes(void **state)
{
    static uint8_t bytes[INPUT_MAX];
    glob_t found;
    (void)state;
    assert_int_equal(glob("tests/fuzz/corpus/wire/*", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 40);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *stream = fopen(found.gl_pathv[i], "rb");
        assert_non_null(stream);
        size_t size = fread(bytes, 1, sizeof bytes, stream);
        (void)fclose(stream);
        wire_script_run(bytes, size);
    }
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wire_corpus_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
