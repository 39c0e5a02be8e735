/* Ids that the service makes: of requests without one, of traces and of spans. A loop draws
 * numbers from a sequence of its own, whose start is random: no number occurs twice on a loop,
 * and a number of another loop or another process is very unlikely to be the same. An id is no
 * secret. Thread: the loop. */
#include "server/base/clock.h"
#include "server/base/trace_context.h"
#include "server/http/loop.h"

#include <sys/random.h>

void ids_init(struct http_loop *loop)
{
    if (getrandom(&loop->id_seed, sizeof loop->id_seed, GRND_NONBLOCK) < 0) {
        loop->id_seed = clock_now_ns();
    }
}

/* SplitMix64. */
uint64_t ids_draw(struct http_loop *loop)
{
    loop->id_seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t id = loop->id_seed;
    id = (id ^ (id >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    id = (id ^ (id >> 27)) * UINT64_C(0x94d049bb133111eb);
    return id ^ (id >> 31);
}

void ids_name_request(struct exchange *exchange)
{
    (void)trace_hex(ids_draw(exchange->loop), exchange->request.arrival.id);
}
