/* The load generator of the feed: plays executors at one end of a server and clients at the other.
 *
 * Executor i listens at FOLDER/i.sock, answers what a daemon asks, and when it has a prompt reports
 * EVENTS deltas, BURST in one write, the next ones as soon as half of the last have arrived at the
 * clients. So the server always has something to do, and its queues do not grow. The rules of the
 * outbox hold as for a real executor: unacknowledged events are bounded. A client follows a session
 * over a WebSocket and expects every delta of it once, in order.
 *
 * One process plays all of them: real executors would take the cores that are to be measured. They
 * begin together, once all have their prompts. What is measured begins behind the first WARM_UP
 * deliveries.
 *
 * Usage: feed_load FOLDER PORT TOKEN EXECUTORS CLIENTS EVENTS WARM_UP BURST
 * The sessions' ids come on stdin, a line each, one for every executor; CLIENTS follow each.
 * It prints "ready" when prompts may be sent, and at the end the figures.
 */
#define _GNU_SOURCE
#include "sockets.h"

#include <signal.h>

#define DATA_BYTES 190 /* of an event's payload */
#define LINE_BYTES 640
#define SHARED_BYTES (512 * 1024)
#define OUTBOX_BYTES (16 * 1024 * 1024)
#define OUTBOX_EVENTS (OUTBOX_BYTES / LINE_BYTES)

enum kind { LISTENER, EXECUTOR, CLIENT };

struct session {
    char id[80];
    long delivered; /* to all its clients together */
};

struct executor {
    enum kind kind;
    int fd;
    struct session *session;
    char token[128], task_id[80], request_id[24];
    long sent, acked, deltas;
    bool answered;
    char *held;
    size_t held_length;
};

struct client {
    enum kind kind;
    int fd;
    struct session *session;
    long received;
    char *held;
    size_t held_length;
};

static const char *folder, *bearer;
static int port, epoll;
static long executors_count, clients_each, events, warm_up, burst;
static struct session *sessions;
static struct executor *executors;
static long prompted, delivered, expected, measured;
static int64_t began, cpu_began, delivered_at;
static clockid_t server_cpu;
static float *latencies; /* ms */
static char shared[SHARED_BYTES];

/* ── executors ─────────────────────────────────────────────────────────────────────────────── */

static void listen_at(long number)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct executor *executor = &executors[number];
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%ld.sock", folder, number);
    if (length >= (int)sizeof address.sun_path)
        fail("the socket path is too long");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)
        fail("cannot listen at %s: %s", address.sun_path, strerror(errno));
    *executor = (struct executor){.kind = LISTENER, .fd = fd};
    watch(epoll, fd, executor);
}

static void accept_server(struct executor *executor)
{
    struct ucred server;
    socklen_t size = sizeof server;
    int fd = accept(executor->fd, NULL, NULL);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) < 0)
        fail("accept: %s", strerror(errno));
    close(executor->fd);
    *executor = (struct executor){.kind = EXECUTOR, .fd = fd, .held = allocate(1, SHARED_BYTES)};
    server_cpu = cpu_clock_of(server.pid);
    watch(epoll, fd, executor);
}

/* Copies the string or number that follows a key in a line. */
static void take_value(const char *line, size_t length, const char *key, char *into, size_t room)
{
    const char *found = memmem(line, length, key, strlen(key)), *end = line + length;
    if (found == NULL)
        fail("no %s in: %.*s", key, (int)length, line);
    found += strlen(key);
    while (found < end && (*found == ' ' || *found == '"'))
        found++;
    size_t copied = 0;
    while (found < end && *found != '"' && *found != ',' && *found != '}' && copied < room - 1)
        into[copied++] = *found++;
    into[copied] = '\0';
}

static void take_prompt(struct executor *executor, const char *line, size_t length)
{
    char id[80];
    take_value(line, length, "\"session_id\":", id, sizeof id);
    take_value(line, length, "\"session_token\":", executor->token, sizeof executor->token);
    take_value(line, length, "\"task_id\":", executor->task_id, sizeof executor->task_id);
    take_value(line, length, "\"id\":", executor->request_id, sizeof executor->request_id);
    for (long i = 0; i < executors_count; i++)
        if (strcmp(sessions[i].id, id) == 0)
            executor->session = &sessions[i];
    if (executor->session == NULL)
        fail("a prompt of an unknown session %s", id);
    prompted++;
}

static void take_line(struct executor *executor, const char *line, size_t length)
{
    char answer[512], value[24];
    const char *result;
    if (memmem(line, length, "\"ack_messages\"", 14) != NULL) {
        take_value(line, length, "\"sequence\":", value, sizeof value);
        executor->acked = strtol(value, NULL, 10);
        return;
    }
    if (memmem(line, length, "\"execute_prompt\"", 16) != NULL) {
        take_prompt(executor, line, length);
        return;
    }
    if (memmem(line, length, "\"initialize\"", 12) != NULL)
        result = "{\"protocol_version\":\"1.0\",\"executor_id\":\"played\",\"pid\":1,"
                 "\"unix_user\":\"nobody\",\"agents\":[],\"capabilities\":[],\"tasks\":[]}";
    else if (memmem(line, length, "\"ping\"", 6) != NULL)
        result = "{\"pong\":true,\"timestamp\":0}";
    else
        result = "{\"status\":\"idle\"}"; /* of a shutdown */
    take_value(line, length, "\"id\":", value, sizeof value);
    int size = snprintf(answer, sizeof answer, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n",
                        value, result);
    send_all(executor->fd, answer, (size_t)size);
}

static void hear(struct executor *executor)
{
    size_t room = SHARED_BYTES - executor->held_length;
    executor->held_length += receive(executor->fd, executor->held + executor->held_length, room);
    char *line = executor->held, *end = line + executor->held_length, *newline;
    while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        take_line(executor, line, (size_t)(newline - line));
        line = newline + 1;
    }
    executor->held_length = (size_t)(end - line);
    memmove(executor->held, line, executor->held_length);
}

static char *append_event(struct executor *executor, char *to, const char *type, const char *data)
{
    int64_t now_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    return to + sprintf(to,
                        "{\"jsonrpc\":\"2.0\",\"method\":\"report_message\",\"params\":{"
                        "\"session_token\":\"%s\",\"task_id\":\"%s\",\"sequence\":%ld,"
                        "\"timestamp\":%lld,\"event_type\":\"%s\",\"event_data\":%s}}\n",
                        executor->token, executor->task_id, ++executor->sent, (long long)now_ms,
                        type, data);
}

/* A delta says where it belongs and when it was made; the rest of its text is padding. */
static char *append_delta(struct executor *executor, char *to)
{
    char data[DATA_BYTES + 1];
    int length = snprintf(data, sizeof data, "{\"block_id\":\"%s-b1\",\"index\":%ld,"
                          "\"text\":\"@%ld@%lld@", executor->task_id, executor->deltas,
                          executor->deltas, (long long)clock_ns(CLOCK_MONOTONIC));
    executor->deltas++;
    memset(data + length, 'x', (size_t)(DATA_BYTES - length));
    memcpy(data + DATA_BYTES - 2, "\"}", 3);
    return append_event(executor, to, "block_delta", data);
}

static char *append_end(struct executor *executor, char *to)
{
    char data[256];
    snprintf(data, sizeof data, "{\"block_id\":\"%s-b1\",\"deltas\":%ld,\"length\":1}",
             executor->task_id, executor->deltas);
    to = append_event(executor, to, "block_complete", data);
    const char *result = "{\"status\":\"completed\",\"message_count\":1,\"token_usage\":{}}";
    to = append_event(executor, to, "task_result", result);
    executor->answered = true;
    return to + sprintf(to, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", executor->request_id,
                        result);
}

/* Reports the next burst, if it is time. */
static void report(struct executor *executor)
{
    char *end = shared;
    long under_way = executor->deltas * clients_each - executor->session->delivered;
    if (executor->answered || under_way > burst * clients_each / 2 ||
        executor->sent - executor->acked + burst + 3 > OUTBOX_EVENTS)
        return;
    if (executor->sent == 0) {
        char data[160];
        snprintf(data, sizeof data, "{\"block_id\":\"%s-b1\",\"kind\":\"text\"}", executor->task_id);
        end = append_event(executor, end, "block_start", data);
    }
    for (long i = 0; i < burst && executor->deltas < events; i++)
        end = append_delta(executor, end);
    if (executor->deltas == events)
        end = append_end(executor, end);
    send_all(executor->fd, shared, (size_t)(end - shared));
}

/* ── clients ───────────────────────────────────────────────────────────────────────────────── */

static void follow(struct client *client, struct session *session)
{
    char head[1024];
    *client = (struct client){.kind = CLIENT, .fd = connect_tcp(port), .session = session};
    int length = snprintf(head, sizeof head,
                          "GET /sessions/%s/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                          "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                          "Sec-WebSocket-Version: 13\r\nAuthorization: Bearer %s\r\n\r\n",
                          session->id, port, bearer);
    send_all(client->fd, head, (size_t)length);
    client->held = allocate(1, 16 * 1024);
    char *end = NULL;
    while (end == NULL) {
        ssize_t got = recv(client->fd, client->held + client->held_length,
                           16 * 1024 - client->held_length, 0);
        if (got <= 0)
            fail("no answer to a handshake");
        client->held_length += (size_t)got;
        end = memmem(client->held, client->held_length, "\r\n\r\n", 4);
    }
    if (strncmp(client->held, "HTTP/1.1 101", 12) != 0)
        fail("the handshake was refused: %.*s", (int)client->held_length, client->held);
    client->held_length -= (size_t)(end + 4 - client->held);
    memmove(client->held, end + 4, client->held_length);
    watch(epoll, client->fd, client);
}

/* Takes one message; those that no executor sent, of the daemon itself, are passed over. */
static void take_message(struct client *client, const char *text, size_t length, int64_t now)
{
    const char *mark = memmem(text, length, ":\"@", 3);
    if (mark == NULL)
        return;
    char *rest;
    long index = strtol(mark + 3, &rest, 10);
    if (index != client->received)
        fail("delta %ld came in the place of %ld", index, client->received);
    client->received++;
    client->session->delivered++;
    delivered++;
    if (began != 0)
        latencies[measured++] = (float)(now - strtoll(rest + 1, NULL, 10)) / 1e6f;
}

/* The length of a frame with its head, and where its payload begins; 0 if its head is not here. */
static size_t frame_length(const unsigned char *frame, size_t length, size_t *payload)
{
    if (length < 2)
        return 0;
    size_t size = frame[1], more = size < 126 ? 0 : size == 126 ? 2 : 8;
    if (length < 2 + more)
        return 0;
    if (more > 0)
        size = 0;
    for (size_t i = 0; i < more; i++)
        size = size << 8 | frame[2 + i];
    *payload = 2 + more;
    return size + 2 + more;
}

static void read_feed(struct client *client)
{
    memcpy(shared, client->held, client->held_length);
    size_t room = SHARED_BYTES - client->held_length;
    size_t length = client->held_length + receive(client->fd, shared + client->held_length, room);
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    size_t start = 0, payload, size;
    while ((size = frame_length((unsigned char *)shared + start, length - start, &payload)) > 0 &&
           size <= length - start) {
        if ((shared[start] & 0x0F) == 1)
            take_message(client, shared + start + payload, size - payload, now);
        else if ((shared[start] & 0x0F) == 8)
            fail("the server closed a feed: %.*s", (int)(size - payload - 2),
                 shared + start + payload + 2);
        start += size;
    }
    client->held_length = length - start;
    if (client->held_length > 16 * 1024)
        fail("a message longer than any that was sent");
    memcpy(client->held, shared + start, client->held_length);
    delivered_at = now;
}

/* ── all together ──────────────────────────────────────────────────────────────────────────── */

static void read_sessions(void)
{
    sessions = allocate((size_t)executors_count, sizeof *sessions);
    for (long i = 0; i < executors_count; i++)
        if (scanf("%79s", sessions[i].id) != 1)
            fail("too few sessions on stdin");
}

static bool all_acknowledged(void)
{
    for (long i = 0; i < executors_count; i++)
        if (!executors[i].answered || executors[i].acked < executors[i].sent)
            return false;
    return true;
}

static void turn(void)
{
    struct epoll_event ready[256];
    int count = wait_ready(epoll, ready, 256);
    for (int i = 0; i < count; i++) {
        enum kind kind = *(enum kind *)ready[i].data.ptr;
        if (kind == CLIENT)
            read_feed(ready[i].data.ptr);
        else if (kind == EXECUTOR)
            hear(ready[i].data.ptr);
        else
            accept_server(ready[i].data.ptr);
    }
    if (began == 0 && delivered >= warm_up && prompted == executors_count) {
        began = clock_ns(CLOCK_MONOTONIC);
        cpu_began = clock_ns(server_cpu);
        expected -= delivered;
    }
    for (long i = 0; i < executors_count && prompted == executors_count; i++)
        report(&executors[i]);
}

static void print_figures(void)
{
    double seconds = (double)(delivered_at - began) / 1e9;
    double cpu_us = (double)(clock_ns(server_cpu) - cpu_began) / 1e3;
    qsort(latencies, (size_t)measured, sizeof *latencies, by_value);
    printf("{\"per_s\":%.1f,\"cpu_us\":%.4f,\"p50_ms\":%.4f,\"p99_ms\":%.4f}\n",
           (double)measured / seconds, cpu_us / (double)measured,
           (double)latencies[measured / 2], (double)latencies[measured * 99 / 100]);
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail("usage: feed_load FOLDER PORT TOKEN EXECUTORS CLIENTS EVENTS WARM_UP BURST");
    folder = argv[1];
    port = atoi(argv[2]);
    bearer = argv[3];
    executors_count = atol(argv[4]);
    clients_each = atol(argv[5]);
    events = atol(argv[6]);
    warm_up = atol(argv[7]);
    burst = atol(argv[8]);
    if (burst * LINE_BYTES > SHARED_BYTES / 2)
        fail("such a burst does not fit");
    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    expected = executors_count * clients_each * events;
    latencies = allocate((size_t)expected, sizeof *latencies);
    read_sessions();
    executors = allocate((size_t)executors_count, sizeof *executors);
    struct client *clients = allocate((size_t)(executors_count * clients_each), sizeof *clients);
    for (long i = 0; i < executors_count; i++)
        listen_at(i);
    for (long i = 0; i < executors_count * clients_each; i++)
        follow(&clients[i], &sessions[i / clients_each]);
    puts("ready");
    fflush(stdout);
    while (measured < expected || began == 0)
        turn();
    int64_t done = delivered_at;
    while (!all_acknowledged())
        turn();
    delivered_at = done;
    print_figures();
    return 0;
}
