/* A running total of numbers in parts of different lengths.
 * cc parts.c $(pkg-config --cflags --libs tally) && ./a.out */
#include <stdio.h>
#include <tally.h>

int main(void)
{
    double numbers[6] = {1, 2, 3, 4, 5, 6};
    double sums[6];
    int counts[3] = {1, 3, 2};
    int64_t sizes[1] = {0}; /* the axis grows */
    struct tally_scan scan = {
        .struct_size = sizeof scan, .dtype = TALLY_FLOAT64, .rank = 1, .sizes = sizes};
    struct tally_error err;
    struct tally *client = tally_open(NULL, NULL, &err);
    struct tally_parts *parts = client == NULL ? NULL : tally_parts_open(client, &scan, &err);
    int failed = parts == NULL;
    for (int i = 0; i < 3 && !failed; i++) {
        int64_t at = tally_parts_position(parts);
        failed = tally_parts_next(parts, counts[i], numbers + at, sums + at, &err) != TALLY_OK;
    }
    if (failed)
        fprintf(stderr, "%s\n", err.message);
    for (int i = 0; i < 6 && !failed; i++)
        printf("%g%s", sums[i], i < 5 ? " " : "\n");
    tally_parts_close(parts);
    tally_close(client);
    return failed;
}
