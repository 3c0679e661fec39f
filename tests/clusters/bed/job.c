/* A user's container job, in an image that has nothing else: reports its user and its action as outputs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints a file of its folder. */
static int shows(const char *path) {
    char text[4096];
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text, file) : 0;
    return file && fwrite(text, 1, length, stdout) == length && !fclose(file);
}

/* `checks` is a check, which finds a change if there is another word; `fails` gives a reason and exit code 3; `waits` waits for a signal, but not in a second attempt; `shows` prints files, and the
   variable TOKEN. Without a task it prints the files of the published definitions, if they are there. */
int main(int argc, char **argv) {
    const char *action = getenv("ACTION"), *outputs = getenv("OUTPUTS_FILE"), *directory = getenv("SCRIPTS_DIRECTORY");
    const char *error = getenv("ERROR_FILE"), *attempt = getenv("CANYON_ATTEMPT"), *task = argc > 1 ? argv[1] : "";
    char here[256];
    FILE *file;
    if (!action || !outputs || !directory || !getcwd(here, sizeof here)) return 3;
    if (strcmp(here, directory)) return 4;
    /* Its root file system is read-only. */
    if (open("/written", O_WRONLY | O_CREAT, 0600) >= 0) return 5;
    if (!strcmp(task, "fails")) {
        file = error ? fopen(error, "a") : 0;
        if (!file || fputs("no such bucket\n", file) < 0) return 8;
        return fclose(file) ? 9 : 3;
    }
    if (!strcmp(task, "checks")) return strcmp(action, "check") ? 11 : argc > 2 ? 2 : 0;
    if (!strcmp(task, "waits") && attempt && !strcmp(attempt, "1")) {
        puts("it has begun");
        fflush(stdout);
        pause();
    }
    if (!strcmp(task, "shows")) {
        for (int at = 2; at < argc; at++)
            if (!shows(argv[at])) return 10;
        printf("the token is %s\n", getenv("TOKEN"));
    }
    if (!*task) {
        shows("s3/terraform.tfvars.json");
        shows("main.tf");
    }
    printf("the job of user %d does: %s\n", (int)getuid(), action);
    if (strcmp(action, "create")) return 0;
    file = fopen(outputs, "w");
    if (!file || fprintf(file, "{\"user\": %d, \"folder\": \"%s\"}", (int)getuid(), here) < 0) return 6;
    return fclose(file) ? 7 : 0;
}
