/* A hash table of clients with something in flight; entries of clients without leave at once,
 * so it never holds more than there are connections. Chained, and locked: it is looked at twice
 * a request, and only where the limit is on. */
#include "server/share.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    BUCKETS = 4096
};

struct client {
    uint64_t key[2];
    uint64_t requests;
    struct client *next;
};

struct share {
    uint64_t max_requests;
    uint64_t seed; /* keeps clients from choosing their bucket */
    pthread_mutex_t lock;
    struct client *buckets[BUCKETS]; /* shared: lock */
};

enum status share_create(uint64_t max_requests, struct share **out, struct error *err)
{
    struct share *share = calloc(1, sizeof *share);
    if (share == NULL || pthread_mutex_init(&share->lock, NULL) != 0) {
        free(share);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the table of clients");
    }
    share->max_requests = max_requests;
    if (getrandom(&share->seed, sizeof share->seed, 0) < 0) {
        share->seed = (uint64_t)(uintptr_t)share;
    }
    *out = share;
    return STATUS_OK;
}

void share_destroy(struct share *share)
{
    if (share == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        while (share->buckets[i] != NULL) {
            struct client *client = share->buckets[i];
            share->buckets[i] = client->next;
            free(client);
        }
    }
    (void)pthread_mutex_destroy(&share->lock);
    free(share);
}

static bool key_of(const struct sockaddr_storage *address, uint64_t key[2])
{
    if (address->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        key[0] = 0;
        key[1] = v4.sin_addr.s_addr;
        return true;
    }
    if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        memcpy(&key[0], v6.sin6_addr.s6_addr, sizeof key[0]);
        key[1] = UINT64_MAX;
        return true;
    }
    return false;
}

static struct client **bucket_of(struct share *share, const uint64_t key[2])
{
    uint64_t hash = (key[0] ^ share->seed) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ key[1] ^ (hash >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return &share->buckets[(hash >> 32) % BUCKETS];
}

/* Link that points to the client, or to NULL at the end of its chain. */
static struct client **find(struct share *share, const uint64_t key[2])
{
    struct client **link = bucket_of(share, key);
    while (*link != NULL && memcmp((*link)->key, key, sizeof(*link)->key) != 0) {
        link = &(*link)->next;
    }
    return link;
}

static bool take_locked(struct share *share, const uint64_t key[2])
{
    struct client **link = find(share, key);
    if (*link == NULL) {
        struct client *client = calloc(1, sizeof *client);
        if (client == NULL) {
            return false;
        }
        memcpy(client->key, key, sizeof client->key);
        *link = client;
    }
    if ((*link)->requests >= share->max_requests) {
        return false;
    }
    (*link)->requests++;
    return true;
}

bool share_take(struct share *share, const struct sockaddr_storage *client)
{
    uint64_t key[2];
    if (!key_of(client, key)) {
        return true;
    }
    (void)pthread_mutex_lock(&share->lock);
    bool taken = take_locked(share, key);
    (void)pthread_mutex_unlock(&share->lock);
    return taken;
}

void share_give(struct share *share, const struct sockaddr_storage *client)
{
    uint64_t key[2];
    if (!key_of(client, key)) {
        return;
    }
    (void)pthread_mutex_lock(&share->lock);
    struct client **link = find(share, key);
    struct client *found = *link;
    if (found != NULL && --found->requests == 0) {
        *link = found->next;
        free(found);
    }
    (void)pthread_mutex_unlock(&share->lock);
}
