/* What the load generators of the feed group share: sockets, clocks, quantiles.
 *
 * Whatever goes wrong ends the program with a message and status 1; a server that keeps silent for
 * SILENCE_SECONDS has gone wrong too.
 */
#ifndef BENCH_FEED_SOCKETS_H
#define BENCH_FEED_SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_SECONDS 30
#define LENGTH(literal) (sizeof(literal) - 1)

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) < 0)
        fail("clock_gettime: %s", strerror(errno));
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The CPU clock of a process: all its threads, to the nanosecond. */
static inline clockid_t cpu_clock_of(pid_t pid)
{
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0)
        fail("no CPU clock of process %d", (int)pid);
    return clock;
}

static inline void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        fail("out of memory");
    return memory;
}

static inline int connect_tcp(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval silence = {.tv_sec = SILENCE_SECONDS};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence);
    return fd;
}

static inline void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t wrote = send(fd, bytes, length, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            fail("write: %s", errno == EAGAIN ? "the server stopped reading" : strerror(errno));
        bytes += wrote;
        length -= (size_t)wrote;
    }
}

/* One read of what is there; 0 if nothing is, in spite of what epoll said. */
static inline size_t receive(int fd, char *space, size_t room)
{
    ssize_t got = recv(fd, space, room, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got < 0)
        fail("read: %s", strerror(errno));
    if (got == 0)
        fail("the server closed a connection");
    return (size_t)got;
}

static inline void watch(int epoll, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll_ctl: %s", strerror(errno));
}

/* Waits for something to read; nothing at all for long is a failure. */
static inline int wait_ready(int epoll, struct epoll_event *ready, int most)
{
    int count;
    do
        count = epoll_wait(epoll, ready, most, SILENCE_SECONDS * 1000);
    while (count < 0 && errno == EINTR);
    if (count <= 0)
        fail("the server keeps silent");
    return count;
}

static inline int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

#endif
