/* Replaces the runner in a container: does what CANYON_ACT names, and notes it at CANYON_NOTES (address:port) under the
   name CANYON_NOTES_KEY. Without these variables it asks at CANYON_API_URL what to do, notes there what it did, and uses
   its deployment and attempt as its name. With the argument `inject` it fills a volume, as the runner does. Compiled with
   WITHOUT_INJECT, it is a runner that does not know this argument. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_term(int signal) {
    (void)signal;
    asked++;
}

/* Sends a line about the job, and reads the answer, which comes once the line is counted. */
static void say(const char *what, char *answer, size_t room) {
    const char *to = getenv("CANYON_NOTES"), *key = getenv("CANYON_NOTES_KEY");
    const char *url = getenv("CANYON_API_URL");
    const char *deployment = getenv("CANYON_DEPLOYMENT_ID"), *attempt = getenv("CANYON_ATTEMPT");
    char host[64], name[128], line[256];
    int port, connection = socket(AF_INET, SOCK_STREAM, 0);
    size_t length = 0;
    ssize_t more;
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (!to && url && !strncmp(url, "http://", 7)) to = url + 7;
    if (!key && deployment && attempt) {
        snprintf(name, sizeof name, "%s-%s", deployment, attempt);
        key = name;
    }
    if (!to || !key || sscanf(to, "%63[^:]:%d", host, &port) != 2) exit(90);
    address.sin_port = htons(port);
    inet_pton(AF_INET, host, &address.sin_addr);
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) exit(91);
    snprintf(line, sizeof line, "%s %s\n", key, what);
    if (write(connection, line, strlen(line)) < 0) exit(92);
    while (length + 1 < room && (more = read(connection, answer + length, room - 1 - length)) > 0) length += more;
    answer[length] = 0;
    close(connection);
}

static void note(const char *what) {
    char nothing[2];
    say(what, nothing, sizeof nothing);
}

static void fill_memory(void) {
    for (;;) {
        char *more = malloc(1 << 20);
        if (more) memset(more, 1, 1 << 20);
    }
}

static int refuse(const char *what) {
    fprintf(stderr, "canyon-runner: %s\n", what);
    return 73;
}

/* Copies this program into the folder. */
static int inject(const char *folder) {
    char block[65536];
    ssize_t more;
    int from = open("/proc/self/exe", O_RDONLY), to;
    if (from < 0 || chdir(folder) || mkdir("bin", 0755)) return refuse("inject: the folder");
    to = open("bin/canyon-runner", O_WRONLY | O_CREAT | O_EXCL, 0755);
    if (to < 0) return refuse("inject: the program");
    while ((more = read(from, block, sizeof block)) > 0)
        if (write(to, block, (size_t)more) != more) return refuse("inject: the copy");
    umask(0);
    if (fchmod(to, 0755) || mkdir("run", 01777) || mkdir("work", 01777)) return refuse("inject: the modes");
    /* The job's folder for temporary files, on platforms that give it a volume there. */
    chmod("tmp", 01777);
    return 0;
}

int main(int count, char **arguments) {
    const char *act = getenv("CANYON_ACT");
        char received[64];
    struct sigaction on = {.sa_handler = on_term};
    sigaction(SIGTERM, &on, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Behaves like the runner that a check starts, and exits with the code that the runner's definition names. */
    if (count > 1 && !strcmp(arguments[1], "metadata-services")) {
        const char *end = getenv("METADATA_END");
        return end ? atoi(end) : 0;
    }
#ifdef WITHOUT_INJECT
    if (count > 1) {
        fprintf(stderr, "canyon-runner: CANYON_API_URL is not set\n");
        return 64;
    }
#else
    if (count > 2 && !strcmp(arguments[1], "inject")) return inject(arguments[2]);
#endif
    if (!act) {
                say("act?", received, sizeof received);
                act = received;
    }
    if (!*act) return 93;
    if (!strcmp(act, "writes")) {
        const char *log = getenv("CANYON_LOG_TO_STDOUT");
        /* Like the runner: without this variable it writes nothing to its standard output. */
        if (!log || strcmp(log, "1")) return 94;
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
    if (!strcmp(act, "files")) {
        int file = open("/tmp/file", O_WRONLY | O_CREAT | O_EXCL, 0600), work = open("/canyon/work/file", O_WRONLY | O_CREAT, 0600);
        note(file >= 0 && work >= 0 && open("/file", O_WRONLY | O_CREAT, 0600) < 0 ? "wrote" : "refused");
        return 0;
    }
    for (int noted = 0;; noted++) {
        while (noted == asked) usleep(10000);
        note("asked");
        if (strcmp(act, "stubborn")) return 0;
    }
}
