/* The model without a disk and without a clock: when would each of these requests be done?
 *
 *   replay MEGABYTES NAME=VALUE...      names as in simulated_disk.c
 *
 * A line of the input is `WHEN KIND OFFSET SIZE`: nanoseconds, or -1 for "when all before are done"; r, w
 * or f (flush). Prints the time at which each is done, then the rows that RAID-5 wrote whole, and those
 * that it read first.
 */
#include <stdio.h>
#include <stdlib.h>

#include "array.h"

static Array array;
static int left;

static void done(Request *request, int64_t at) {
    *(int64_t *)request->owner = at;
    left--;
}

static int64_t run_until(int64_t until) {
    if (until >= 0) return array_run(&array, until), until;
    while (left) array_run(&array, array_next(&array));
    return array.now;
}

int main(int count, char **words) {
    if (count < 2) return fprintf(stderr, "see the head of replay.c\n"), 2;
    array_defaults(&array, atoll(words[1]));
    for (int i = 2; i < count; i++)
        if (!array_set(&array, words[i])) return fprintf(stderr, "replay: %s is no setting\n", words[i]), 2;
    const char *wrong = array_init(&array);
    if (wrong) return fprintf(stderr, "replay: %s\n", wrong), 2;
    long when, offset, size;
    char kind;
    while (scanf("%ld %c %ld %ld", &when, &kind, &offset, &size) == 4) {
        Request *request = calloc(1, sizeof *request);
        int64_t at = run_until(when), *end = calloc(1, sizeof *end);
        *request = (Request){.kind = kind == 'r' ? READ : kind == 'w' ? WRITE : FLUSH, .offset = offset, .size = size,
                             .done = done, .owner = end};
        left++;
        array_add(&array, request, at);
        array_run(&array, at);
        if (when >= 0) continue;
        run_until(-1);
        printf("%ld\n", *end);
    }
    run_until(-1);
    printf("all %ld whole_rows %ld read_rows %ld\n", array.now, array.whole_rows, array.read_rows);
    return 0;
}
