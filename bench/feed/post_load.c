/* The load generator of the HTTP measure: many connections, on each one POST after another.
 *
 * Usage: post_load PORT TOKEN SERVER_PID CONNECTIONS COUNT WARM_UP PATH BODY
 * Every answer must be 201. What is measured begins behind the first WARM_UP answers.
 */
#define _GNU_SOURCE
#include "sockets.h"

#define ANSWER_BYTES 16384

struct connection {
    int fd;
    int64_t asked;
    size_t length;
    char answer[ANSWER_BYTES];
};

static char request[8192];
static size_t request_length;
static long sent, answered, measured, count, warm_up;
static float *latencies; /* ms */

static void ask(struct connection *connection)
{
    if (sent == count)
        return;
    sent++;
    connection->length = 0;
    connection->asked = clock_ns(CLOCK_MONOTONIC);
    send_all(connection->fd, request, request_length);
}

/* Whether the whole answer is here. */
static bool is_whole(struct connection *connection)
{
    char *end = memmem(connection->answer, connection->length, "\r\n\r\n", 4);
    if (end == NULL)
        return false;
    if (strncmp(connection->answer, "HTTP/1.1 201", 12) != 0)
        fail("refused: %.*s", (int)connection->length, connection->answer);
    char *size = strcasestr(connection->answer, "content-length:");
    if (size == NULL || size > end)
        fail("an answer without a length");
    return connection->length == (size_t)(end + 4 - connection->answer) + strtoul(size + 15, NULL, 10);
}

static void hear(struct connection *connection)
{
    size_t room = ANSWER_BYTES - 1 - connection->length;
    connection->length += receive(connection->fd, connection->answer + connection->length, room);
    connection->answer[connection->length] = '\0';
    if (!is_whole(connection))
        return;
    if (answered++ >= warm_up)
        latencies[measured++] = (float)(clock_ns(CLOCK_MONOTONIC) - connection->asked) / 1e6f;
    ask(connection);
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail("usage: post_load PORT TOKEN SERVER_PID CONNECTIONS COUNT WARM_UP PATH BODY");
    int port = atoi(argv[1]), connections_count = atoi(argv[4]);
    clockid_t cpu = cpu_clock_of(atoi(argv[3]));
    count = atol(argv[5]);
    warm_up = atol(argv[6]);
    latencies = allocate((size_t)count, sizeof *latencies);
    request_length = (size_t)snprintf(request, sizeof request,
                                      "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                      "Authorization: Bearer %s\r\n"
                                      "Content-Type: application/json\r\n"
                                      "Content-Length: %zu\r\n\r\n%s",
                                      argv[7], port, argv[2], strlen(argv[8]), argv[8]);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *connections = allocate((size_t)connections_count, sizeof *connections);
    for (int i = 0; i < connections_count; i++) {
        connections[i].fd = connect_tcp(port);
        watch(epoll, connections[i].fd, &connections[i]);
        ask(&connections[i]);
    }
    int64_t began = 0, cpu_began = 0;
    while (answered < count) {
        struct epoll_event ready[256];
        int found = wait_ready(epoll, ready, 256);
        for (int i = 0; i < found; i++)
            hear(ready[i].data.ptr);
        if (began == 0 && answered >= warm_up) {
            began = clock_ns(CLOCK_MONOTONIC);
            cpu_began = clock_ns(cpu);
            measured = 0;
            warm_up = answered;
        }
    }
    double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - began) / 1e9;
    double cpu_us = (double)(clock_ns(cpu) - cpu_began) / 1e3;
    qsort(latencies, (size_t)measured, sizeof *latencies, by_value);
    printf("{\"per_s\":%.1f,\"cpu_us\":%.2f,\"p50_ms\":%.4f,\"p99_ms\":%.4f}\n",
           (double)measured / seconds, cpu_us / (double)measured,
           (double)latencies[measured / 2], (double)latencies[measured * 99 / 100]);
    return 0;
}
