// The public headers compile as C++, and a C++ program links with the library.
#include "client/tally.h"
#include "client/tally_directml.h"

#include <cstdio>
#include <cstring>

int main()
{
    tally_options options = TALLY_OPTIONS_INIT;
    tally_error err;
    tally *client = tally_open("http://127.0.0.1:1", &options, &err);
    const int64_t sizes[] = {2};
    tally_scan scan{};
    scan.struct_size = sizeof scan;
    scan.dtype = TALLY_INT32;
    scan.rank = 1;
    scan.sizes = sizes;
    int32_t numbers[2] = {1, 2};
    bool right = client != nullptr &&
                 tally_cumsum(client, &scan, numbers, numbers, &err) == TALLY_CONNECT;
    const UINT dml_sizes[] = {3};
    right = right && tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE_FLOAT16, 1, dml_sizes,
                                                  nullptr) == 8;
    tally_close(client);
    std::puts(right ? "ok 1 - a C++ program uses libtally"
                    : "not ok 1 - a C++ program uses libtally");
    return right ? 0 : 1;
}
