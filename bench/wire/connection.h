/* The load generator's connection: connect, send, take lines, check the answers.
 *
 * Whatever goes wrong ends the program with a message and status 1; a server that neither reads
 * nor writes for SILENCE_SECONDS has gone wrong too.
 */
#ifndef BENCH_WIRE_CONNECTION_H
#define BENCH_WIRE_CONNECTION_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (256 * 1024)
#define SILENCE_SECONDS 20
#define LENGTH(literal) (sizeof(literal) - 1)

static const char REQUEST_HEAD[] = "{\"jsonrpc\":\"2.0\",\"id\":";

struct connection {
    int fd;
    size_t start, end; /* what has been read and not yet taken */
    char buffer[BUFFER_BYTES];
};

static struct connection server;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) < 0)
        fail("clock_gettime: %s", strerror(errno));
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void open_connection(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval silence = {.tv_sec = SILENCE_SECONDS};
    if (strlen(path) >= sizeof address.sun_path)
        fail("the socket path is too long");
    strcpy(address.sun_path, path);
    server.start = server.end = 0;
    server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.fd < 0 || connect(server.fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect: %s", strerror(errno));
    setsockopt(server.fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    setsockopt(server.fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence);
}

static void send_all(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(server.fd, bytes, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            fail("write: %s", errno == EAGAIN ? "the server stopped reading" : strerror(errno));
        bytes += wrote;
        length -= (size_t)wrote;
    }
}

/* One read; a line that is only partly there moves to the front first. */
static void receive(void)
{
    memmove(server.buffer, server.buffer + server.start, server.end - server.start);
    server.end -= server.start;
    server.start = 0;
    if (server.end == BUFFER_BYTES)
        fail("a line longer than %d bytes", BUFFER_BYTES);
    ssize_t got;
    do
        got = read(server.fd, server.buffer + server.end, BUFFER_BYTES - server.end);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        fail("the server closed the connection");
    if (got < 0)
        fail("read: %s", errno == EAGAIN ? "the server keeps silent" : strerror(errno));
    server.end += (size_t)got;
}

/* The next complete line that has been read, without its newline, or NULL. */
static char *take_line(size_t *length)
{
    char *line = server.buffer + server.start;
    char *newline = memchr(line, '\n', server.end - server.start);
    if (newline == NULL)
        return NULL;
    *length = (size_t)(newline - line);
    server.start += *length + 1;
    return line;
}

static char *wait_line(size_t *length)
{
    char *line;
    while ((line = take_line(length)) == NULL)
        receive();
    return line;
}

/* The id of an answer that must hold `result`; the keys may come in any order. */
static long answer_id(const char *line, size_t length, const char *result)
{
    const char *end = line + length, *digit = line + LENGTH(REQUEST_HEAD);
    if (length < LENGTH(REQUEST_HEAD) || memcmp(line, REQUEST_HEAD, LENGTH(REQUEST_HEAD)) != 0) {
        digit = memmem(line, length, "\"id\":", 5);
        if (digit == NULL)
            fail("no id in: %.*s", (int)length, line);
        digit += 5;
    }
    const char *first = digit;
    long id = 0;
    while (digit < end && digit - first < 10 && *digit >= '0' && *digit <= '9')
        id = id * 10 + (*digit++ - '0');
    if (digit == first || memmem(line, length, result, strlen(result)) == NULL)
        fail("not the answer expected: %.*s", (int)length, line);
    return id;
}

#endif
