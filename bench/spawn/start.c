/* Starts one command as an executor and tells how long its first answer took.
 *
 * The clock runs from before the socket is bound to the answer of `ping`. The command gets the
 * listening socket as its standard input, the only descriptor that npx hands on. Prints the pid
 * and the milliseconds; then waits for the end of its own standard input, and ends the command and
 * its process group: so nothing outlives whoever started this, however that one ended.
 *
 * Usage: start SOCKET_PATH COMMAND [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 60000

static const char PING[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
static pid_t child = -1;

static void end(int code)
{
    if (child > 0) {
        kill(-child, SIGKILL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    exit(code);
}

static void fail(const char *what)
{
    perror(what);
    end(1);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void become(int listener, char **command)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(listener, 0);
    dup2(2, 1);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, arguments[1], sizeof address.sun_path - 1);
    unlink(address.sun_path);

    double began = now_ms();
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    if (listen(listener, 8) < 0)
        fail("listen");
    child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        become(listener, arguments + 2);
    close(listener);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(connection, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    if (write(connection, PING, sizeof PING - 1) < 0)
        fail("write");
    struct pollfd waiting = {.fd = connection, .events = POLLIN};
    char answer[4096];
    if (poll(&waiting, 1, PATIENCE_MS) != 1 || read(connection, answer, sizeof answer) <= 0) {
        fputs("no answer\n", stderr);
        end(1);
    }
    printf("%d %.4f\n", child, now_ms() - began);
    fflush(stdout);

    while (read(0, answer, sizeof answer) > 0)
        ;
    end(0);
}
