/* A hash table with a mutex; see client.h. Looked up once a connection, so that requests need
 * no lock here. */
#include "server/sched/client.h"

#include "server/base/thread.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    BUCKETS = 4096
};

struct clients {
    uint64_t seed; /* keeps clients from choosing their bucket */
    pthread_mutex_t lock;
    struct client *buckets[BUCKETS]; /* guarded by the lock */
};

enum status clients_create(struct clients **out, struct error *err)
{
    struct clients *clients = calloc(1, sizeof *clients);
    if (clients == NULL || pthread_mutex_init(&clients->lock, NULL) != 0) {
        free(clients);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the table of clients");
    }
    if (getrandom(&clients->seed, sizeof clients->seed, 0) < 0) {
        clients->seed = (uint64_t)(uintptr_t)clients;
    }
    *out = clients;
    return STATUS_OK;
}

void clients_destroy(struct clients *clients)
{
    if (clients == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        assert(clients->buckets[i] == NULL);
    }
    MUST(pthread_mutex_destroy(&clients->lock));
    free(clients);
}

static void key_of(const struct sockaddr_storage *address, uint64_t key[2])
{
    key[0] = address->ss_family;
    key[1] = 0;
    if (address->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        key[1] = v4.sin_addr.s_addr;
    } else if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        memcpy(&key[1], v6.sin6_addr.s6_addr, sizeof key[1]); /* its /64 network */
    }
}

static struct client **bucket_of(struct clients *clients, const uint64_t key[2])
{
    uint64_t hash = (key[0] ^ clients->seed) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ key[1] ^ (hash >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return &clients->buckets[(hash >> 32) % BUCKETS];
}

static bool is_called(const struct client *client, const char *name)
{
    return name == NULL ? client->name == NULL
                        : client->name != NULL && strcmp(client->name, name) == 0;
}

/* Link that points to the client, or to NULL at the end of its chain. Thread: a holder of the
 * lock. */
static struct client **find(struct clients *clients, const uint64_t key[2], const char *name)
{
    struct client **link = bucket_of(clients, key);
    while (*link != NULL &&
           (memcmp((*link)->key, key, sizeof(*link)->key) != 0 || !is_called(*link, name))) {
        link = &(*link)->next;
    }
    return link;
}

static void client_free(struct client *client)
{
    if (client != NULL) {
        free(client->name);
        free(client);
    }
}

static struct client *client_make(const char *name)
{
    struct client *client = calloc(1, sizeof *client);
    if (client != NULL && name != NULL) {
        client->name = strdup(name);
        if (client->name == NULL) {
            client_free(client);
            return NULL;
        }
    }
    return client;
}

static struct client *get(struct clients *clients, const uint64_t key[2], const char *name)
{
    MUST(pthread_mutex_lock(&clients->lock));
    struct client **link = find(clients, key, name);
    if (*link == NULL) {
        struct client *client = client_make(name);
        if (client != NULL) {
            memcpy(client->key, key, sizeof client->key);
            client->clients = clients;
            *link = client;
        }
    }
    struct client *found = *link;
    if (found != NULL) {
        found->references++;
    }
    MUST(pthread_mutex_unlock(&clients->lock));
    return found;
}

struct client *clients_get(struct clients *clients, const struct sockaddr_storage *address)
{
    uint64_t key[2];
    key_of(address, key);
    return get(clients, key, NULL);
}

struct client *clients_named(struct clients *clients, enum client_kind kind, const char *name)
{
    uint64_t key[2] = {(uint64_t)kind, clients->seed};
    for (const char *at = name; *at != '\0'; at++) {
        key[1] = (key[1] ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return get(clients, key, name);
}

void client_hold(struct client *client)
{
    MUST(pthread_mutex_lock(&client->clients->lock));
    client->references++;
    MUST(pthread_mutex_unlock(&client->clients->lock));
}

void client_release(struct client *client)
{
    if (client == NULL) {
        return;
    }
    struct clients *clients = client->clients;
    MUST(pthread_mutex_lock(&clients->lock));
    bool last = --client->references == 0;
    if (last) {
        *find(clients, client->key, client->name) = client->next;
    }
    MUST(pthread_mutex_unlock(&clients->lock));
    if (last) {
        client_free(client);
    }
}

bool client_begin_request(struct client *client, uint64_t most)
{
    uint64_t before = atomic_fetch_add_explicit(&client->requests, 1, memory_order_relaxed);
    if (before >= most) {
        client_end_request(client);
        return false;
    }
    return true;
}

void client_end_request(struct client *client)
{
    (void)atomic_fetch_sub_explicit(&client->requests, 1, memory_order_relaxed);
}
