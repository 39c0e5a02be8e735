/* A hash table with a mutex; see client.h. A connection looks up its client once, so its
 * requests need no lock. */
#include "server/sched/client.h"

#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    BUCKETS = 4096
};

struct clients {
    uint64_t seed; /* random: clients cannot choose their bucket */
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

/* Free the records of one bucket that have no references and are not ahead of their rate.
 * Thread: a holder of the lock. */
static void drop_unused(struct client **link, uint64_t now_ns)
{
    while (*link != NULL) {
        struct client *client = *link;
        if (client->references > 0 ||
            atomic_load_explicit(&client->sent_until_ns, memory_order_relaxed) > now_ns) {
            link = &client->next;
        } else {
            *link = client->next;
            free(client);
        }
    }
}

void clients_destroy(struct clients *clients)
{
    if (clients == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        drop_unused(&clients->buckets[i], UINT64_MAX);
        assert(clients->buckets[i] == NULL);
    }
    MUST(pthread_mutex_destroy(&clients->lock));
    free(clients);
}

static struct client **bucket_of(struct clients *clients, const uint64_t key[2])
{
    uint64_t hash = (key[0] ^ clients->seed) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ key[1] ^ (hash >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return &clients->buckets[(hash >> 32) % BUCKETS];
}

static struct client *client_make(struct clients *clients, const uint64_t key[2],
                                  const char *name)
{
    const size_t name_bytes = strlen(name) + 1;
    struct client *client = calloc(1, sizeof *client + name_bytes);
    if (client != NULL) {
        memcpy(client->key, key, sizeof client->key);
        client->clients = clients;
        client->name = memcpy(client + 1, name, name_bytes);
    }
    return client;
}

static struct client *client_get(struct clients *clients, const uint64_t key[2],
                                 const char *name)
{
    struct client **link = bucket_of(clients, key);
    MUST(pthread_mutex_lock(&clients->lock));
    drop_unused(link, clock_now_ns());
    while (*link != NULL && (memcmp((*link)->key, key, sizeof(*link)->key) != 0 ||
                             strcmp((*link)->name, name) != 0)) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = client_make(clients, key, name);
    }
    struct client *found = *link;
    if (found != NULL) {
        found->references++;
    }
    MUST(pthread_mutex_unlock(&clients->lock));
    return found;
}

struct client *clients_get(struct clients *clients, const struct address *address)
{
    const uint64_t key[2] = {(uint64_t)address->family, address_owner(address)};
    return client_get(clients, key, "");
}

struct client *clients_named(struct clients *clients, enum client_kind kind, const char *name)
{
    uint64_t key[2] = {(uint64_t)kind, clients->seed};
    for (const char *at = name; *at != '\0'; at++) {
        key[1] = (key[1] ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return client_get(clients, key, name);
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
    client->references--;
    if (client->references == 0) {
        drop_unused(bucket_of(clients, client->key), clock_now_ns());
    }
    MUST(pthread_mutex_unlock(&clients->lock));
}

/* ---- requests and memory ---- */

/* Update the mean: `part` of `whole` was in use for `ns` nanoseconds. A larger part has a
 * larger weight. */
static void learn_time(atomic_uint_fast64_t *mean_ns, uint64_t ns, uint64_t part,
                       uint64_t whole)
{
    double mean = (double)atomic_load_explicit(mean_ns, memory_order_relaxed);
    double share = part < whole ? (double)part / (double)whole : 1;
    atomic_store_explicit(mean_ns, (uint64_t)(mean + ((double)ns - mean) * share),
                          memory_order_relaxed);
}

/* Returns the estimated nanoseconds until `part` of `whole` is free. The estimate assumes that
 * the whole becomes free at a constant rate, within the mean time. */
static uint64_t time_until_free(const atomic_uint_fast64_t *mean_ns, uint64_t part,
                                uint64_t whole)
{
    double mean = (double)atomic_load_explicit(mean_ns, memory_order_relaxed);
    return (uint64_t)(mean * (double)part / (double)whole);
}

bool client_begin_request(struct client *client, uint64_t most, uint64_t *wait_ns)
{
    uint64_t before = atomic_fetch_add_explicit(&client->requests, 1, memory_order_relaxed);
    if (before >= most) {
        (void)atomic_fetch_sub_explicit(&client->requests, 1, memory_order_relaxed);
        *wait_ns = time_until_free(&client->request_ns, 1, most);
        return false;
    }
    return true;
}

void client_end_request(struct client *client, uint64_t took_ns)
{
    learn_time(&client->request_ns, took_ns, 1,
               atomic_fetch_sub_explicit(&client->requests, 1, memory_order_relaxed));
}

bool client_take_memory(struct client *client, uint64_t bytes, uint64_t most, uint64_t *wait_ns)
{
    uint64_t before = atomic_load_explicit(&client->memory_bytes, memory_order_relaxed);
    do {
        if (bytes > most - before) {
            *wait_ns = time_until_free(&client->memory_ns, bytes - (most - before), before);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&client->memory_bytes, &before,
                                                    before + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void client_give_memory(struct client *client, uint64_t bytes, uint64_t held_ns)
{
    if (bytes > 0) {
        learn_time(
            &client->memory_ns, held_ns, bytes,
            atomic_fetch_sub_explicit(&client->memory_bytes, bytes, memory_order_relaxed));
    }
}

/* ---- the rate ---- */

/* Returns the time of `bytes` bytes at the rate, at most a day. */
static uint64_t time_of(uint64_t bytes, uint64_t rate)
{
    double ns = (double)bytes / (double)rate * NS_PER_S;
    const double day = 86400.0 * NS_PER_S;
    return (uint64_t)(ns < day ? ns : day);
}

bool client_may_send(struct client *client, uint64_t body, uint64_t bytes, uint64_t rate,
                     uint64_t now_ns, uint64_t *wait_ns)
{
    const uint64_t ns = time_of(bytes, rate);
    const uint64_t free_ns = now_ns + NS_PER_S; /* a client may be one second ahead */
    uint64_t until_ns = atomic_load_explicit(&client->sent_until_ns, memory_order_relaxed);
    uint64_t from_ns = 0;
    do {
        from_ns = until_ns > now_ns ? until_ns : now_ns;
        if (from_ns > free_ns &&
            atomic_load_explicit(&client->ahead, memory_order_relaxed) != body) {
            *wait_ns = from_ns - free_ns;
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&client->sent_until_ns, &until_ns,
                                                    from_ns + ns, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (from_ns + ns > free_ns) {
        atomic_store_explicit(&client->ahead, body, memory_order_relaxed);
    }
    return true;
}

void client_sends_less(struct client *client, uint64_t counted, uint64_t received,
                       uint64_t rate)
{
    (void)atomic_fetch_sub_explicit(&client->sent_until_ns,
                                    time_of(counted, rate) - time_of(received, rate),
                                    memory_order_relaxed);
}
