/* One spinning disk as a model: given requests, it says when each is done. Time is in nanoseconds
 * of the disk; nothing here knows a clock. */
#ifndef PLATTER_H
#define PLATTER_H
#include <stdbool.h>
#include <stdint.h>

typedef enum { READ, WRITE, FLUSH } Kind;

typedef struct Op {
    struct Op *next;
    Kind kind;
    int64_t position, size, seen; /* seen: when it came among those that the disk sorts, or 0 */
    void (*done)(struct Op *, int64_t at);
    void *owner;
} Op;

typedef struct {
    int64_t count, bytes, linear_count, linear_bytes; /* linear: it begins where the head is */
    int64_t seeks, seek_bytes;                        /* to another track, and how far */
    int64_t seek_ns, turn_ns, transfer_ns, cached;    /* cached: reads that never met the head */
} Moves;

typedef struct {
    int64_t size, turn_ns, seek_min_ns, seek_max_ns, flush_ns;
    int64_t cache_bytes, ahead_bytes; /* no cache: a write is done when it is on the platter */
    double bytes_a_ns;
    int64_t queue_max, cached_max; /* requests that it sorts; writes in its cache, apart */
} Shape;

typedef struct { int64_t begin, end, since; } Extent;
typedef struct { int64_t begin, end, used; } Segment;
enum { SEGMENTS = 16 };

typedef struct {
    const Shape *shape;
    Op *first, **last;
    int64_t head, free_at; /* free_at: until then it works, or since then it has rested */
    bool works;
    Op *current;  /* or NULL: it works on what it has cached */
    Extent *dirty; /* sorted, apart from each other */
    int64_t dirty_count, dirty_room, dirty_bytes;
    bool unflushed, drained_last;
    int64_t flush_until; /* of the flush under way, or 0 */
    Segment read[SEGMENTS];
    int growing; /* the segment that the head reads on into while nothing else is asked, or -1 */
    Moves moves[2];
    int64_t flushes, flush_ns;
} Platter;

#define NEVER INT64_MAX

void platter_init(Platter *disk, const Shape *shape);
void platter_add(Platter *disk, Op *op);
int64_t platter_next(const Platter *disk); /* when it has to be run again */
bool platter_step(Platter *disk, int64_t at); /* false: nothing to do at this time */
#endif
