/* Example 2 of the DirectML page: an exclusive sum along the last axis, in place.
 * cc directml.c $(pkg-config --cflags --libs tally) && ./a.out */
#include <stdio.h>
#include <tally_directml.h>

int main(void)
{
    float numbers[12] = {2, 1, 3, 5, 3, 8, 7, 3, 9, 6, 2, 4};
    UINT sizes[4] = {1, 1, 3, 4};
    DML_BUFFER_TENSOR_DESC buffer = {.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                     .DimensionCount = 4,
                                     .Sizes = sizes,
                                     .TotalTensorSizeInBytes = sizeof numbers};
    DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &buffer};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC desc = {.InputTensor = &tensor,
                                                   .OutputTensor = &tensor,
                                                   .Axis = 3,
                                                   .AxisDirection =
                                                       DML_AXIS_DIRECTION_INCREASING,
                                                   .HasExclusiveSum = TRUE};
    struct tally_dml_binding bound = {.buffer = numbers, .size_in_bytes = sizeof numbers};
    struct tally_error err;
    struct tally *client = tally_open(NULL, NULL, &err);
    if (client == NULL || tally_dml_cumulative_summation(client, &desc, DML_FEATURE_LEVEL_2_1,
                                                         &bound, &bound, &err) != TALLY_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int i = 0; i < 12; i++)
        printf("%g%c", (double)numbers[i], i % 4 == 3 ? '\n' : ' ');
    tally_close(client);
    return 0;
}
