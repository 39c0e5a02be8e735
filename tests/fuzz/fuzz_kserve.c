/* libFuzzer target: requests of the KServe API. */
#include "tests/fuzz/codec_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return drive(&codec_kserve, data, size);
}
