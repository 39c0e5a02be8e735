/* A hundred submitted sums over two connections.
 * cc async.c $(pkg-config --cflags --libs tally) && ./a.out */
#include <stdio.h>
#include <tally.h>

enum {
    TENSORS = 100,
    NUMBERS = 1000
};

static int64_t tensors[TENSORS][NUMBERS];

/* Runs on the client's thread, one call at a time. */
static void on_done(void *user, const struct tally_error *result)
{
    int *failed = user;
    if (result->status != TALLY_OK) {
        fprintf(stderr, "%s\n", result->message);
        ++*failed;
    }
}

int main(void)
{
    int failed = 0;
    int64_t sizes[1] = {NUMBERS};
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    struct tally_scan scan = {
        .struct_size = sizeof scan, .dtype = TALLY_INT64, .rank = 1, .sizes = sizes};
    options.async_connections = 2;
    struct tally *client = tally_open(NULL, &options, &err);
    if (client == NULL) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int t = 0; t < TENSORS; t++) {
        for (int i = 0; i < NUMBERS; i++)
            tensors[t][i] = t;
        if (tally_submit(client, &scan, tensors[t], tensors[t],
                         (struct tally_done){on_done, &failed}, &err) != TALLY_OK) {
            fprintf(stderr, "%s\n", err.message);
            failed++;
        }
    }
    tally_wait(client, -1); /* all callbacks have run */
    printf("%d of %d sums, the last one is %lld\n", TENSORS - failed, TENSORS,
           (long long)tensors[TENSORS - 1][NUMBERS - 1]);
    tally_close(client);
    return failed != 0;
}
