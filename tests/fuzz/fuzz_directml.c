/* libFuzzer target: requests of the DirectML API. */
#include "tests/fuzz/codec_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return drive(&codec_directml, data, size);
}
