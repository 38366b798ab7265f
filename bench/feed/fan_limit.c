/* The limit of the fan-out: what it costs to give events to many clients with one send each.
 *
 * It does next to nothing: nothing is stored or parsed, a handshake is accepted without a look at
 * it, and what an executor wrote between two newlines is put into a frame as it is. What a read of
 * the executor brought is acknowledged once all clients have been written to. One epoll loop;
 * it writes blocking, which costs less than watching for room.
 *
 * Usage: fan_limit FOLDER PORT
 */
#define _GNU_SOURCE
#include "sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>

#define CHUNK_BYTES (256 * 1024)
#define MOST_CLIENTS 4096
#define ACCEPTED                                                                                \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"          \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
#define CREATED "HTTP/1.1 201 Created\r\nContent-Length: 18\r\n\r\n{\"session_id\":\"0\"}"
#define TAKEN "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}"
#define PROMPT                                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"execute_prompt\",\"params\":{"                   \
    "\"session_token\":\"token\",\"session_id\":\"0\",\"task_id\":\"task\"}}\n"
#define ACKNOWLEDGED                                                                            \
    "{\"jsonrpc\":\"2.0\",\"method\":\"ack_messages\",\"params\":{\"task_id\":\"task\","         \
    "\"sequence\":%ld}}\n"

enum kind { LISTENER, EXECUTOR, CONNECTION };

struct end {
    enum kind kind;
    int fd;
};

static const char *folder;
static int epoll;
static struct end executor = {.kind = EXECUTOR};
static int clients[MOST_CLIENTS], clients_count;
static char input[CHUNK_BYTES];
static size_t held;
static long events;

static void accept_connection(int listener)
{
    int yes = 1;
    struct end *connection = allocate(1, sizeof *connection);
    *connection = (struct end){.kind = CONNECTION, .fd = accept(listener, NULL, NULL)};
    if (connection->fd < 0)
        fail("accept: %s", strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    watch(epoll, connection->fd, connection);
}

static void connect_executor(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/0.sock", folder);
    executor.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(executor.fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect: %s", strerror(errno));
    watch(epoll, executor.fd, &executor);
    send_all(executor.fd, PROMPT, LENGTH(PROMPT));
}

/* A request comes as a whole: whoever asks here sends it with one write, or its body soon after. */
static void answer(struct end *connection)
{
    char request[4096];
    ssize_t got = recv(connection->fd, request, sizeof request - 1, 0);
    if (got <= 0) {
        close(connection->fd);
        free(connection);
        return;
    }
    request[got] = '\0';
    if (strstr(request, "Upgrade:") != NULL && clients_count < MOST_CLIENTS) {
        clients[clients_count++] = connection->fd;
        send_all(connection->fd, ACCEPTED, LENGTH(ACCEPTED));
    } else if (strstr(request, "/prompt") != NULL) {
        connect_executor();
        send_all(connection->fd, TAKEN, LENGTH(TAKEN));
    } else if (strncmp(request, "POST", 4) == 0) {
        send_all(connection->fd, CREATED, LENGTH(CREATED));
    }
}

static void tell_all(const char *line, size_t length)
{
    static char frame[CHUNK_BYTES + 4];
    if (length < 126 || length > 65535)
        fail("an event of an odd size: %zu", length);
    frame[0] = '\x81';
    frame[1] = 126;
    frame[2] = (char)(length >> 8);
    frame[3] = (char)length;
    memcpy(frame + 4, line, length);
    for (int i = 0; i < clients_count; i++)
        send_all(clients[i], frame, length + 4);
}

static void relay(void)
{
    char acknowledged[128];
    ssize_t got = recv(executor.fd, input + held, CHUNK_BYTES - held, 0);
    if (got <= 0)
        exit(0);
    held += (size_t)got;
    char *line = input, *end = input + held, *newline;
    while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        if (memmem(line, (size_t)(newline - line), "report_message", 14) != NULL) {
            tell_all(line, (size_t)(newline - line));
            events++;
        }
        line = newline + 1;
    }
    held = (size_t)(end - line);
    memmove(input, line, held);
    int length = snprintf(acknowledged, sizeof acknowledged, ACKNOWLEDGED, events);
    send_all(executor.fd, acknowledged, (size_t)length);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("usage: fan_limit FOLDER PORT");
    folder = argv[1];
    signal(SIGPIPE, SIG_IGN);
    int yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[2]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct end listener = {.kind = LISTENER, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener.fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener.fd, 1024) < 0)
        fail("listen: %s", strerror(errno));
    epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, listener.fd, &listener);
    for (;;) {
        struct epoll_event ready[64];
        int count = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < count; i++) {
            struct end *end = ready[i].data.ptr;
            if (end->kind == LISTENER)
                accept_connection(end->fd);
            else if (end->kind == EXECUTOR)
                relay();
            else
                answer(end);
        }
    }
}
