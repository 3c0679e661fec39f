/* Stands for the runner in a container: does what CANYON_ACT says, and notes it at CANYON_NOTES (address:port). */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_term(int signal) {
    (void)signal;
    asked++;
}

/* Sends a line with the job and what it did, and waits until it is counted. */
static void note(const char *what) {
    const char *to = getenv("CANYON_NOTES"), *key = getenv("CANYON_NOTES_KEY");
    char host[64], line[256];
    int port, connection = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (!to || !key || sscanf(to, "%63[^:]:%d", host, &port) != 2) exit(90);
    address.sin_port = htons(port);
    inet_pton(AF_INET, host, &address.sin_addr);
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) exit(91);
    snprintf(line, sizeof line, "%s %s\n", key, what);
    if (write(connection, line, strlen(line)) < 0) exit(92);
    while (read(connection, line, sizeof line) > 0) continue;
    close(connection);
}

static void fill_memory(void) {
    for (;;) {
        char *more = malloc(1 << 20);
        if (more) memset(more, 1, 1 << 20);
    }
}

int main(void) {
    const char *act = getenv("CANYON_ACT");
    struct sigaction on = {.sa_handler = on_term};
    sigaction(SIGTERM, &on, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!act) return 93;
    if (!strcmp(act, "writes")) {
        puts("~canyon note begins\n~canyon at 0\n012345678\n~canyon event 012345678\n~canyon at 10");
        note("started");
        return 0;
    }
    note("started");
    if (!strcmp(act, "memory")) fill_memory();
    if (!strcmp(act, "fails")) {
        puts("~canyon note the API refused the claim");
        return 3;
    }
    for (int noted = 0;; noted++) {
        while (noted == asked) usleep(10000);
        note("asked");
        if (strcmp(act, "stubborn")) return 0;
    }
}
