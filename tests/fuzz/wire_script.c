#include "tests/fuzz/wire_script.h"

#include "tests/fuzz/wire_client.h"
#include "tests/fuzz/wire_server.h"

#include <sys/ioctl.h>
#include <time.h>

enum {
    MOST_RECORDS = 64,
    PATIENCE_S = 20,     /* limit for an answer that must arrive */
    STIMULUS_ROUNDS = 30 /* rounds of 0.1 ms in which an optional answer may arrive */
};

struct script {
    struct wire_client clients[WIRE_CLIENTS];
    bool opened[WIRE_CLIENTS];
    struct wire_mood mood;
};

static void doze(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static bool pump(struct script *script)
{
    bool moved = false;
    for (int i = 0; i < WIRE_CLIENTS; i++) {
        if (script->opened[i]) {
            moved = wire_client_pump(&script->clients[i], script->mood) || moved;
        }
    }
    return moved;
}

static struct wire_client *client_of(struct script *script, unsigned at)
{
    if (!script->opened[at]) {
        wire_client_open(&script->clients[at], at == WIRE_CLIENTS - 1);
        script->opened[at] = true;
        unsigned count = 0;
        for (int i = 0; i < WIRE_CLIENTS; i++) {
            count += script->opened[i];
        }
        script->mood.crowded = count > WIRE_CLIENT_REQUESTS;
    }
    return &script->clients[at];
}

static void ask(struct wire_client *client, unsigned at, struct wire_reader params)
{
    bool edited = false;
    if (client->fd < 0 || client->half_closed || client->asked == WIRE_PIPELINE) {
        return;
    }
    /* No bytes should follow "Connection: close": unread bytes would make the server reset the
     * TCP connection, and answers in flight would be lost. */
    client->may_close =
        client->may_close || (client->asked > 0 && client->requests[client->asked - 1].closes);
    client->free_to_send = client->out.count; /* all bytes of earlier requests */
    client->free_to_send += wire_request_make(params, at, client->asked, &client->out,
                                              &client->requests[client->asked], &edited);
    client->asked++;
    client->tainted = client->tainted || edited;
}

static void send_more(struct wire_client *client, uint8_t share)
{
    size_t more = share == 0 ? client->out.count : client->out.count * share / 256;
    client->free_to_send = more > client->free_to_send ? more : client->free_to_send;
}

static void await(struct script *script, struct wire_client *client)
{
    unsigned answered = client->answered;
    for (int round = 0; round < STIMULUS_ROUNDS && client->fd >= 0; round++) {
        int unread = 0;
        if (pump(script)) {
            round = 0;
        } else if (client->answered > answered ||
                   (client->free_to_send == 0 && round > 2 &&
                    ioctl(client->fd, TIOCOUTQ, &unread) == 0 && unread == 0 &&
                    client->answered == client->asked)) {
            return;
        }
        wire_tick();
        doze();
    }
}

static void move_clock(uint8_t how_far)
{
    static const uint64_t ms[] = {1, 60, 300, 600, 1100, 6000, 11000, 31000, 80000, 700000};
    wire_advance(ms[how_far % (sizeof ms / sizeof ms[0])]);
    for (int round = 0; round < STIMULUS_ROUNDS; round++) { /* lasts one or two heartbeats */
        wire_tick();
        doze();
    }
}

static void end(struct script *script, struct wire_client *client, uint8_t how)
{
    if (how < 200) {
        client->deaf = true;
        return;
    }
    script->mood.calm = false;
    if (how < 230) {
        wire_drain();
    } else {
        wire_stop();
    }
}

static void act(struct script *script, unsigned op, unsigned at, struct wire_reader bytes)
{
    struct wire_client *client = client_of(script, at);
    uint8_t mode = 0;
    switch (op) {
    default:
        ask(client, at, bytes);
        break;
    case WIRE_OP_BYTES:
        if (client->fd >= 0 && !client->half_closed) {
            client->tainted = true;
            wire_text_add(&client->out, bytes.at, bytes.left);
            client->free_to_send = client->out.count;
        }
        break;
    case WIRE_OP_SEND:
        send_more(client, wire_read_byte(&bytes));
        break;
    case WIRE_OP_HALF_CLOSE:
        wire_client_half_close(client);
        break;
    case WIRE_OP_CLOSE:
    case WIRE_OP_RESET:
        wire_client_close(client, op == WIRE_OP_RESET);
        break;
    case WIRE_OP_AWAIT:
        await(script, client);
        break;
    case WIRE_OP_TIME:
        script->mood.calm = false;
        move_clock(wire_read_byte(&bytes));
        break;
    case WIRE_OP_DEVICE:
        script->mood.calm = false;
        mode = wire_read_byte(&bytes);
        wire_device(wire_read_byte(&bytes), mode);
        break;
    case WIRE_OP_MEMORY:
        script->mood.calm = false;
        wire_squeeze((uint64_t)wire_read_byte(&bytes) << 10);
        break;
    case WIRE_OP_END:
        end(script, client, wire_read_byte(&bytes));
        break;
    }
}

/* Send the remaining bytes and read until every request is answered. After arbitrary bytes,
 * wait as long as anything arrives. */
static void finish(struct script *script)
{
    uint64_t began_ns = wire_real_ns();
    int quiet_rounds = 0;
    bool through = false;
    wire_relieve();
    while (!through) {
        quiet_rounds = pump(script) ? 0 : quiet_rounds + 1;
        through = true;
        for (int i = 0; i < WIRE_CLIENTS; i++) {
            struct wire_client *client = &script->clients[i];
            if (!script->opened[i]) {
                continue;
            }
            client->deaf = false;
            client->free_to_send = client->out.count;
            bool done =
                wire_client_through(client) ||
                ((client->tainted || client->half_closed) && quiet_rounds > STIMULUS_ROUNDS);
            through = through && done;
        }
        if (!through && wire_real_ns() - began_ns > PATIENCE_S * UINT64_C(1000000000)) {
            wire_fail("an answer does not come");
        }
        if (quiet_rounds > 0) {
            wire_tick();
            doze();
        }
        if (quiet_rounds > STIMULUS_ROUNDS && !script->mood.calm) {
            wire_advance(20); /* failed devices are used again after a while */
        }
    }
}

/* A plain request of a new client must succeed: earlier connections have been accepted by then,
 * and no quota or place is lost. */
static void probe(unsigned at)
{
    static const uint8_t params[] = {0, DTYPE_I32, 0, 0, 0, 0, 8}; /* Connection: close */
    struct script script = {.mood = {.calm = true}};
    ask(client_of(&script, at), at, (struct wire_reader){params, sizeof params});
    finish(&script);
    if (script.clients[at].answered != 1) {
        wire_fail("after all clients have left, a new one gets no answer");
    }
    wire_client_free(&script.clients[at]);
}

void wire_script_run(const uint8_t *data, size_t size)
{
    struct script script = {.mood = {.calm = true}};
    struct wire_reader reader = {data, size};
    wire_server_start();
    for (int i = 0; i < MOST_RECORDS && reader.left > 0 && wire_running(); i++) {
        uint8_t op = wire_read_byte(&reader);
        size_t length = wire_read_byte(&reader);
        length |= (size_t)wire_read_byte(&reader) << 8;
        length = length < reader.left ? length : reader.left;
        act(&script, op % 16, op / 16 % WIRE_CLIENTS, (struct wire_reader){reader.at, length});
        reader.at += length;
        reader.left -= length;
        (void)pump(&script);
    }
    finish(&script);
    for (int i = 0; i < WIRE_CLIENTS; i++) {
        if (script.opened[i]) {
            wire_client_free(&script.clients[i]);
        }
    }
    if (!wire_running()) {
        return;
    }
    wire_settle();
    if (wire_draining()) {
        wire_stop();
        return;
    }
    if (script.opened[WIRE_CLIENTS - 1]) {
        probe(WIRE_CLIENTS - 1);
    }
    probe(0);
    wire_settle();
}
