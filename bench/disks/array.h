/* Disks as one device: a single one, RAID-0, 1, 10, and RAID-5 with what a partial stripe costs. */
#ifndef ARRAY_H
#define ARRAY_H
#include "platter.h"

enum { MEMBERS_MAX = 16, PAGE = 4096, PAGES_MAX = 128, WORDS = PAGES_MAX / 64 };

typedef struct Request {
    struct Request *next; /* of those that wait for a stripe */
    Kind kind;
    int64_t offset, size;
    int parts; /* left to be done */
    void (*done)(struct Request *, int64_t at);
    void *owner;
} Request;

typedef struct { uint64_t bits[WORDS]; } Pages; /* of a chunk */

typedef struct Waiting {
    struct Waiting *next;
    Request *request;
} Waiting;

typedef struct Stripe {
    struct Stripe *next, *older, *newer;
    int64_t number, due;                           /* due: it waits no longer to be whole */
    Pages wanted[MEMBERS_MAX], writing[MEMBERS_MAX]; /* by data chunk */
    Pages known[MEMBERS_MAX];                      /* the last is parity's */
    Waiting *waiting, *served;
    int parts;
    bool is_busy;
} Stripe;

enum { BUCKETS = 4096 };

typedef struct {
    int64_t level, members; /* level -1: a single disk */
    int64_t size, chunk, gather_ns;
    int64_t rows_max; /* of the stripe cache, in pages of a member */
    Shape shape;
    Platter disks[MEMBERS_MAX];
    int64_t now;
    Stripe *buckets[BUCKETS], *oldest, *newest;
    int64_t whole_rows, read_rows; /* written whole, and after a read */
} Array;

void array_defaults(Array *array, int64_t megabytes);
bool array_set(Array *array, const char *word); /* false: there is no such setting */
const char *array_init(Array *array); /* what is wrong, or NULL */
int array_data_members(const Array *array);
void array_add(Array *array, Request *request, int64_t now);
int64_t array_next(const Array *array);
void array_run(Array *array, int64_t until); /* all that happens until then, in its order */
#endif
