/* With elementwise.h before it, the decision by a lane that nobody wrote must be reported, and
 * those by written lanes, after the same conversion and shuffles, must not. */
__kernel void lanes(__global int *out)
{
    float cells[4];
    cells[0] = 1;
    cells[1] = 2;
    cells[2] = 3;
    float4 v = ((float4 *)cells)[0];
    double4 wide = __builtin_convertvector(v, double4);
    wide = __builtin_shufflevector(wide, wide, 3, 2, 1, 0);
    int8 ones = (int8)(1);
    ones = __builtin_shufflevector(ones, ones, 8, 9, 10, 11, 0, 1, 2, 3);
    if (wide.x > 0) {
        out[0] = 1;
    }
    if (wide.y > 0) {
        out[1] = 1;
    }
    if (ones.s3 > 0) {
        out[2] = 1;
    }
}
