/* The limit of the wire group: what a server costs that does next to nothing.
 *
 * One epoll loop for all its connections, as any server has that does not block on one of them; it
 * writes blocking, which costs less than watching for room. It does not parse JSON: it looks for newlines, copies the
 * bytes of the id and tells the methods apart by their first letter; what a chunk asks is answered
 * with one write. What it sends it formats with snprintf, as the simplest real encoder would.
 *
 * Usage: limit SOCKET_PATH
 */
#define _GNU_SOURCE
#include "event.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_BYTES (256 * 1024)
#define ANSWER_BYTES 128
#define LENGTH(literal) (sizeof(literal) - 1)

/* Where a request's id begins: the envelope always starts with these bytes. */
static const char REQUEST_HEAD[] = "{\"jsonrpc\":\"2.0\",\"id\":";
static const char METHOD_KEY[] = ",\"method\":\"";

#define ANSWER_HEAD "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":"
#define PONG ANSWER_HEAD "{\"pong\":true,\"timestamp\":%ld}}\n"
#define COUNTED ANSWER_HEAD "{\"count\":%ld}}\n"

struct output {
    int fd;
    size_t length;
    char bytes[CHUNK_BYTES];
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* False when the client has gone. */
static bool flush(struct output *out)
{
    size_t sent = 0;
    while (sent < out->length) {
        ssize_t wrote = write(out->fd, out->bytes + sent, out->length - sent);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        sent += (size_t)wrote;
    }
    out->length = 0;
    return true;
}

static bool reserve(struct output *out, size_t bytes)
{
    return out->length + bytes <= sizeof out->bytes || flush(out);
}

static bool emit_events(struct output *out, long count)
{
    for (long i = 0; i < count; i++) {
        if (!reserve(out, EVENT_SPACE))
            return false;
        int length = snprintf(out->bytes + out->length, EVENT_SPACE, EVENT_FORMAT,
                              EVENT_ARGUMENTS(FIRST_SEQUENCE + i, now_ms()));
        out->length += (size_t)length;
    }
    return true;
}

/* Answers one request; a line without an id is an event and only counted. */
static bool take_line(struct output *out, const char *line, size_t length, long *events)
{
    if (length < LENGTH(REQUEST_HEAD) || memcmp(line, REQUEST_HEAD, LENGTH(REQUEST_HEAD)) != 0) {
        ++*events;
        return true;
    }
    const char *id = line + LENGTH(REQUEST_HEAD);
    const char *id_end = memchr(id, ',', (size_t)(line + length - id));
    if (id_end == NULL || id_end - id > 20)
        return false;
    int id_length = (int)(id_end - id);
    char method = id_end[LENGTH(METHOD_KEY)]; /* the newline at the latest ends the line */
    long count = *events;
    if (method == 'e') {
        const char *asked = memmem(line, length, "\"count\":", 8);
        count = asked == NULL ? 0 : strtol(asked + 8, NULL, 10);
        if (!emit_events(out, count))
            return false;
    }
    if (!reserve(out, ANSWER_BYTES))
        return false;
    int wrote = method == 'p'
        ? snprintf(out->bytes + out->length, ANSWER_BYTES, PONG, id_length, id, now_ms())
        : snprintf(out->bytes + out->length, ANSWER_BYTES, COUNTED, id_length, id, count);
    out->length += (size_t)wrote;
    return true;
}

struct connection {
    int fd;
    size_t held;
    long events;
    char input[CHUNK_BYTES];
};

/* Reads once and answers what came. False when the client has gone. */
static bool serve(struct connection *client)
{
    static struct output out;
    out.fd = client->fd;
    out.length = 0;
    ssize_t got = read(client->fd, client->input + client->held, CHUNK_BYTES - client->held);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return false;
    client->held += (size_t)got;
    char *line = client->input, *end = client->input + client->held, *newline;
    while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        if (!take_line(&out, line, (size_t)(newline - line), &client->events))
            return false;
        line = newline + 1;
    }
    client->held = (size_t)(end - line);
    memmove(client->input, line, client->held);
    return client->held < CHUNK_BYTES && flush(&out);
}

static void watch(int epoll, int fd, struct connection *client)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll_ctl");
}

static void accept_client(int epoll, int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    struct connection *client = calloc(1, sizeof *client);
    if (client == NULL)
        fail("calloc");
    client->fd = fd;
    watch(epoll, fd, client);
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path) {
        fprintf(stderr, "usage: limit SOCKET_PATH\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    strcpy(address.sun_path, argv[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        fail("socket");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    if (listen(listener, 16) < 0)
        fail("listen");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        fail("epoll_create1");
    watch(epoll, listener, NULL);
    for (;;) {
        struct epoll_event ready[16];
        int count = epoll_wait(epoll, ready, 16, -1);
        for (int i = 0; i < count; i++) {
            struct connection *client = ready[i].data.ptr;
            if (client == NULL) {
                accept_client(epoll, listener);
            } else if (!serve(client)) {
                close(client->fd);
                free(client);
            }
        }
    }
}
