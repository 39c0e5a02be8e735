/* libFuzzer target: NPY requests of /v1/cumsum. An NPY answer must be accepted as a request. */
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct run run;
    if (!fuzz_split(data, size, true, &input)) {
        return 0;
    }
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_NPY);
    run_request(codec, input.query, input.answer_format, input.body, &run);
    fuzz_check(&run);
    if (run.computed && input.answer_format == CODEC_FORMAT_NPY) {
        struct run again;
        run_request(codec, "", CODEC_FORMAT_NPY, (struct byte_view){run.body, run.bytes},
                    &again);
        REQUIRE(again.status == STATUS_OK);
        REQUIRE(again.bytes == run.bytes);
        run_deinit(&again);
    }
    run_deinit(&run);
    return 0;
}
