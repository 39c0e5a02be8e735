/* Runs every file of tests/fuzz/corpus through its fuzz target, so that earlier findings are
 * tested without a fuzzer. */
#include "tests/lib/unit.h"

#define LLVMFuzzerTestOneInput fuzz_json
#include "tests/fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_raw
#include "tests/fuzz/fuzz_raw.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_npy
#include "tests/fuzz/fuzz_npy.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_carry
#include "tests/fuzz/fuzz_carry.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_tokens
#include "tests/fuzz/fuzz_tokens.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_client_chain
#include "tests/fuzz/fuzz_client_chain.c"
#undef LLVMFuzzerTestOneInput

#include <glob.h>

enum {
    INPUT_MAX = 1 << 20
};

static void replay(const char *pattern, int (*target)(const uint8_t *, size_t))
{
    static uint8_t bytes[INPUT_MAX];
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 10);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *stream = fopen(found.gl_pathv[i], "rb");
        assert_non_null(stream);
        size_t size = fread(bytes, 1, sizeof bytes, stream);
        (void)fclose(stream);
        assert_int_equal(target(bytes, size), 0);
    }
    globfree(&found);
}

static void the_json_corpus_passes(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/json/*", fuzz_json);
}
static void the_raw_corpus_passes(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/raw/*", fuzz_raw);
}
static void the_npy_corpus_passes(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/npy/*", fuzz_npy);
}
static void the_carry_corpus_passes(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/carry/*", fuzz_carry);
}
static void the_tokens_corpus_passes(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/tokens/*", fuzz_tokens);
}
static void the_client_chain_corpus_passes(void **state)
{
    (void)state;
    replay("tests/fuzz/corpus/client_chain/*", fuzz_client_chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_corpus_passes),
        cmocka_unit_test(the_raw_corpus_passes),
        cmocka_unit_test(the_npy_corpus_passes),
        cmocka_unit_test(the_carry_corpus_passes),
        cmocka_unit_test(the_tokens_corpus_passes),
        cmocka_unit_test(the_client_chain_corpus_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
