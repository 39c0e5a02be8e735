/* Sums along the rows of a 2x3 tensor; TALLY_URL is the address of the server.
 * cc cumsum.c $(pkg-config --cflags --libs tally) && ./a.out */
#include <stdio.h>
#include <tally.h>

int main(void)
{
    float numbers[6] = {1, 2, 3, 10, 20, 30};
    int64_t sizes[2] = {2, 3};
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_FLOAT32,
                              .rank = 2,
                              .sizes = sizes,
                              .axis = 1};
    struct tally_error err;
    struct tally *client = tally_open(NULL, NULL, &err);
    if (client == NULL || tally_cumsum(client, &scan, numbers, numbers, &err) != TALLY_OK)
        return fprintf(stderr, "%s\n", err.message), 1;
    for (int i = 0; i < 6; i++)
        printf("%g ", (double)numbers[i]);
    puts("");
    tally_close(client);
}
