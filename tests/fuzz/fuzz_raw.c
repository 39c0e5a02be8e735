/* libFuzzer target: raw requests of /v1/cumsum. */
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct run run;
    if (!fuzz_split(data, size, true, &input)) {
        return 0;
    }
    run_request(codec_cumsum(CODEC_FORMAT_RAW), input.query, input.answer_format, input.body,
                &run);
    fuzz_check(&run);
    REQUIRE(!run.computed || run.call.input_bytes == input.body.count);
    run_deinit(&run);
    return 0;
}
