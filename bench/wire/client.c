/* The one load generator of the wire group: every server is measured by this same program.
 *
 * Usage: client sequential|inflight|receive|emit SOCKET_PATH COUNT CORE
 *        (CORE -1 leaves the placement to the scheduler)
 *
 * A tenth of COUNT goes ahead unmeasured, on a connection of its own. Each answer is checked: an
 * unknown or repeated id, a wrong count, a lost or malformed event ends the run with a message and
 * status 1. The result is one JSON object on stdout.
 */
#define _GNU_SOURCE
#include "connection.h"
#include "event.h"

#include <sched.h>
#include <signal.h>

#define BATCH_EVENTS 320 /* 64,000 bytes a write */
#define IN_FLIGHT 64
#define REQUEST_BYTES 128
#define SEQUENCE_DIGITS 7

static char result[256];

/* Writes a number's digits so that they end just before `end`; returns where they begin. */
static char *digits_before(char *end, long number)
{
    do
        *--end = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return end;
}

/* By hand: with snprintf the load generator, not the server, would set the pace of the fastest. */
static char *append_ping(char *out, long id)
{
    static const char tail[] = ",\"method\":\"ping\",\"params\":{}}\n";
    char digits[24], *end = digits + sizeof digits, *first = digits_before(end, id);
    out = mempcpy(out, REQUEST_HEAD, LENGTH(REQUEST_HEAD));
    out = mempcpy(out, first, (size_t)(end - first));
    return mempcpy(out, tail, LENGTH(tail));
}

static void send_request(long id, const char *method, const char *params)
{
    char request[REQUEST_BYTES];
    int length = snprintf(request, sizeof request, "%s%ld,\"method\":\"%s\",\"params\":%s}\n",
                          REQUEST_HEAD, id, method, params);
    send_all(request, (size_t)length);
}

static double seconds_since(int64_t begin)
{
    return (double)(clock_ns(CLOCK_MONOTONIC) - begin) / 1e9;
}

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* One `ping` at a time. */
static void sequential(long count)
{
    int64_t *took = calloc((size_t)count, sizeof *took);
    if (took == NULL)
        fail("out of memory");
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    for (long id = 0; id < count; id++) {
        char request[REQUEST_BYTES];
        char *end = append_ping(request, id);
        int64_t sent = clock_ns(CLOCK_MONOTONIC);
        send_all(request, (size_t)(end - request));
        size_t length;
        char *line = wait_line(&length);
        took[id] = clock_ns(CLOCK_MONOTONIC) - sent;
        if (answer_id(line, length, "\"pong\":true") != id)
            fail("the answer to another request: %.*s", (int)length, line);
    }
    double per_second = (double)count / seconds_since(begin);
    qsort(took, (size_t)count, sizeof *took, by_value);
    snprintf(result, sizeof result,
             "{\"sequential_per_s\":%.1f,\"sequential_p50_us\":%.3f,\"sequential_p99_us\":%.3f}",
             per_second, (double)took[count / 2] / 1e3, (double)took[count * 99 / 100] / 1e3);
    free(took);
}

/* The CPU clock of the process that listens: all its threads, to the nanosecond. */
static clockid_t server_cpu_clock(void)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    clockid_t clock;
    if (getsockopt(server.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        fail("SO_PEERCRED: %s", strerror(errno));
    if (clock_getcpuclockid(peer.pid, &clock) != 0)
        fail("no CPU clock of process %d", (int)peer.pid);
    return clock;
}

static void send_pings(long first, long count)
{
    char requests[IN_FLIGHT * REQUEST_BYTES], *end = requests;
    for (long i = 0; i < count; i++)
        end = append_ping(end, first + i);
    send_all(requests, (size_t)(end - requests));
}

/* 64 `ping` in flight: read what came, ask as many new ones in one write. */
static void inflight(long count)
{
    char *answered = calloc((size_t)count, 1);
    if (answered == NULL)
        fail("out of memory");
    clockid_t cpu = server_cpu_clock();
    int64_t cpu_begin = clock_ns(cpu), begin = clock_ns(CLOCK_MONOTONIC);
    long sent = 0, open = 0, done = 0;
    while (done < count) {
        long fresh = IN_FLIGHT - open < count - sent ? IN_FLIGHT - open : count - sent;
        send_pings(sent, fresh);
        sent += fresh;
        open += fresh;
        receive();
        size_t length;
        for (char *line; (line = take_line(&length)) != NULL; open--, done++) {
            long id = answer_id(line, length, "\"pong\":true");
            if (id >= sent || answered[id]++)
                fail("an unknown or repeated id: %.*s", (int)length, line);
        }
    }
    double seconds = seconds_since(begin);
    double cpu_us = (double)(clock_ns(cpu) - cpu_begin) / 1e3;
    snprintf(result, sizeof result, "{\"inflight64_per_s\":%.1f,\"inflight64_cpu_us\":%.4f}",
             (double)count / seconds, cpu_us / (double)count);
    free(answered);
}

/* Blasts one-way events, then asks how many arrived. */
static void receive_events(long count)
{
    static char batch[BATCH_EVENTS * EVENT_BYTES + EVENT_SPACE];
    long timestamp = (long)(clock_ns(CLOCK_REALTIME) / 1000000);
    for (long i = 0; i < BATCH_EVENTS; i++)
        snprintf(batch + i * EVENT_BYTES, EVENT_SPACE, EVENT_FORMAT,
                 EVENT_ARGUMENTS(FIRST_SEQUENCE, timestamp));
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    for (long sent = 0; sent < count;) {
        long events = count - sent < BATCH_EVENTS ? count - sent : BATCH_EVENTS;
        for (long i = 0; i < events; i++) /* only the sequence changes from event to event */
            digits_before(batch + i * EVENT_BYTES + LENGTH(EVENT_HEAD) + SEQUENCE_DIGITS,
                          FIRST_SEQUENCE + sent + i);
        send_all(batch, (size_t)events * EVENT_BYTES);
        sent += events;
    }
    send_request(count, "count", "{}");
    size_t length;
    char *line = wait_line(&length), expected[32];
    snprintf(expected, sizeof expected, "{\"count\":%ld}", count);
    if (answer_id(line, length, expected) != count)
        fail("the answer to another request: %.*s", (int)length, line);
    snprintf(result, sizeof result, "{\"received_per_s\":%.1f}",
             (double)count / seconds_since(begin));
}

/* Asks for events and takes them: each is whole, in order and there once. */
static void emit_events(long count)
{
    char params[32], digits[SEQUENCE_DIGITS];
    size_t length;
    snprintf(params, sizeof params, "{\"count\":%ld}", count);
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    send_request(count, "emit", params);
    for (long i = 0; i < count; i++) {
        char *line = wait_line(&length);
        digits_before(digits + SEQUENCE_DIGITS, FIRST_SEQUENCE + i);
        if (length != EVENT_BYTES - 1 || memcmp(line, EVENT_HEAD, LENGTH(EVENT_HEAD)) != 0 ||
            memcmp(line + LENGTH(EVENT_HEAD), digits, SEQUENCE_DIGITS) != 0)
            fail("not event %ld of %ld: %.*s", i, count, (int)length, line);
    }
    char *line = wait_line(&length);
    if (answer_id(line, length, "\"result\":") != count)
        fail("the answer to another request: %.*s", (int)length, line);
    snprintf(result, sizeof result, "{\"emitted_per_s\":%.1f}",
             (double)count / seconds_since(begin));
}

static void pin(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) < 0)
        fail("cannot run on core %d: %s", core, strerror(errno));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long count);
    } measures[] = {{"sequential", sequential}, {"inflight", inflight},
                    {"receive", receive_events}, {"emit", emit_events}};
    long count = argc == 5 ? strtol(argv[3], NULL, 10) : 0;
    if (count < 1 || count > MOST_EVENTS)
        fail("usage: client MEASURE SOCKET_PATH COUNT CORE, COUNT up to %ld", MOST_EVENTS);
    int core = (int)strtol(argv[4], NULL, 10);
    if (core >= 0)
        pin(core);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        if (strcmp(argv[1], measures[i].name) != 0)
            continue;
        const long passes[] = {count / 10 + 1, count};
        for (size_t pass = 0; pass < 2; pass++) {
            open_connection(argv[2]);
            measures[i].run(passes[pass]);
            if (server.start != server.end)
                fail("the server sent more than it was asked for");
            close(server.fd);
        }
        puts(result);
        return 0;
    }
    fail("unknown measure %s", argv[1]);
}
