/* Moves the wall clock of the program that preloads this by the seconds in the file OFFSET_FILE, read at its start. */
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long offset;

__attribute__((constructor)) static void read_offset(void) {
    FILE *file = fopen(OFFSET_FILE, "r");
    if (file == NULL) return;
    if (fscanf(file, "%ld", &offset) != 1) offset = 0;
    fclose(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += offset;
    return result;
}
