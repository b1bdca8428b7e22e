#include "platter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a drain: a read waits for no more than this much of a long write. */
static const int64_t SLICE = 1 << 20, ON_TIME_NS = 2000;
static const int64_t OLD_NS = 500000000; /* nobody waits longer for the sake of a shorter way */
enum { LOOKED_AT = 128 };                /* extents near the head, of those that wait to be written */

void platter_init(Platter *disk, const Shape *shape) {
    memset(disk, 0, sizeof *disk);
    disk->shape = shape;
    disk->last = &disk->first;
    disk->growing = -1;
}

void platter_add(Platter *disk, Op *op) {
    op->next = NULL;
    *disk->last = op;
    disk->last = &op->next;
}

static void take_out(Platter *disk, Op **at) {
    Op *op = *at;
    *at = op->next;
    if (!op->next) disk->last = at;
}

static int64_t track_bytes(const Shape *shape) {
    return (int64_t)(shape->bytes_a_ns * (double)shape->turn_ns);
}

/* Where the head is at this time: it reads on behind a read, as far as there is room. */
static int64_t head_at(const Platter *disk, int64_t at) {
    if (disk->growing < 0 || at <= disk->free_at) return disk->head;
    int64_t grown = (int64_t)((double)(at - disk->free_at) * disk->shape->bytes_a_ns);
    int64_t most = disk->shape->ahead_bytes, left = disk->shape->size - disk->head;
    if (grown > most) grown = most;
    return disk->head + (grown < left ? grown : left);
}

static bool is_streaming(const Platter *disk, int64_t at) {
    return at <= disk->free_at || (disk->growing >= 0 && head_at(disk, at) - disk->head < disk->shape->ahead_bytes);
}

typedef struct { int64_t seek_ns, turn_ns; } Way;

static Way way_to(const Platter *disk, int64_t at, int64_t position) {
    const Shape *shape = disk->shape;
    int64_t head = head_at(disk, at), far = llabs(position - head), track = track_bytes(shape);
    Way way = {0, 0};
    if (!far && is_streaming(disk, at)) return way;
    if (head / track != position / track)
        way.seek_ns = shape->seek_min_ns + (int64_t)((double)(shape->seek_max_ns - shape->seek_min_ns) *
                                                     sqrt((double)far / (double)shape->size));
    int64_t wanted = (int64_t)((double)(position % track) / shape->bytes_a_ns);
    int64_t angle = (at + way.seek_ns) % shape->turn_ns;
    way.turn_ns = (wanted - angle + shape->turn_ns) % shape->turn_ns;
    if (way.turn_ns > shape->turn_ns - ON_TIME_NS) way.turn_ns = 0;
    return way;
}

static int64_t cost(const Platter *disk, int64_t at, int64_t position) {
    Way way = way_to(disk, at, position);
    return way.seek_ns + way.turn_ns;
}

/* What waits in the cache to be written */

static int64_t first_at_or_behind(const Platter *disk, int64_t position) {
    int64_t low = 0, high = disk->dirty_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (disk->dirty[middle].end < position) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void keep(Platter *disk, int64_t begin, int64_t end, int64_t at) {
    int64_t from = first_at_or_behind(disk, begin), to = from;
    Extent whole = {begin, end, at};
    for (; to < disk->dirty_count && disk->dirty[to].begin <= end; to++) {
        Extent *each = &disk->dirty[to];
        disk->dirty_bytes -= each->end - each->begin;
        if (each->begin < whole.begin) whole.begin = each->begin;
        if (each->end > whole.end) whole.end = each->end;
        if (each->since < whole.since) whole.since = each->since;
    }
    if (disk->dirty_count + 1 > disk->dirty_room) {
        disk->dirty_room = disk->dirty_room * 2 + 64;
        disk->dirty = realloc(disk->dirty, (size_t)disk->dirty_room * sizeof *disk->dirty);
    }
    memmove(disk->dirty + from + 1, disk->dirty + to, (size_t)(disk->dirty_count - to) * sizeof *disk->dirty);
    disk->dirty_count += 1 - (to - from);
    disk->dirty[from] = whole;
    disk->dirty_bytes += whole.end - whole.begin;
    disk->unflushed = true;
}

static int64_t nearest_dirty(const Platter *disk, int64_t at) {
    int64_t middle = first_at_or_behind(disk, head_at(disk, at)), best = -1, least = NEVER;
    int64_t from = middle - LOOKED_AT / 2, to = middle + LOOKED_AT / 2;
    if (disk->dirty_count <= LOOKED_AT) from = 0, to = disk->dirty_count;
    for (int64_t i = from; i < to; i++) {
        int64_t each = (i + disk->dirty_count) % disk->dirty_count;
        int64_t time = cost(disk, at, disk->dirty[each].begin);
        if (time < least) best = each, least = time;
    }
    return best;
}

/* What was read, and what the head read on behind it */

static void stop_growing(Platter *disk, int64_t at) {
    if (disk->growing < 0) return;
    int64_t head = head_at(disk, at);
    disk->read[disk->growing].end = head;
    if (at > disk->free_at && !is_streaming(disk, at)) disk->free_at = at - 1; /* it waits there */
    else if (at > disk->free_at) disk->free_at = at;
    disk->head = head;
    disk->growing = -1;
}

static int segment_of(Platter *disk, int64_t position, int64_t at) {
    for (int i = 0; i < SEGMENTS; i++) {
        Segment *each = &disk->read[i];
        int64_t end = i == disk->growing ? head_at(disk, at) : each->end;
        if (each->begin <= position && position < end) return i;
    }
    return -1;
}

static void drop_read(Platter *disk, int64_t begin, int64_t end) {
    for (int i = 0; i < SEGMENTS; i++) {
        Segment *each = &disk->read[i];
        if (i != disk->growing && each->begin < end && begin < each->end) each->begin = each->end = 0;
    }
}

static void grow(Platter *disk, const Op *op, int64_t at) {
    int chosen = 0;
    for (int i = 0; i < SEGMENTS; i++) {
        Segment *each = &disk->read[i];
        if (each->end && each->begin <= op->position && op->position <= each->end) {
            chosen = i;
            break;
        }
        if (each->used < disk->read[chosen].used) chosen = i;
    }
    Segment *kept = &disk->read[chosen];
    int64_t end = op->position + op->size, most = 2 * disk->shape->ahead_bytes;
    if (!(kept->end && kept->begin <= op->position && op->position <= kept->end)) kept->begin = op->position;
    if (end - kept->begin > most) kept->begin = end - most;
    kept->end = end;
    kept->used = at;
    disk->growing = chosen;
}

/* Begins and ends */

static void begin(Platter *disk, Kind kind, int64_t position, int64_t size, int64_t at) {
    stop_growing(disk, at);
    if (kind == WRITE) drop_read(disk, position, position + size);
    Way way = way_to(disk, at, position);
    int64_t transfer = (int64_t)((double)size / disk->shape->bytes_a_ns);
    Moves *moves = &disk->moves[kind];
    moves->count++;
    moves->bytes += size;
    if (position == disk->head) moves->linear_count++, moves->linear_bytes += size;
    if (way.seek_ns) moves->seeks++, moves->seek_bytes += llabs(position - disk->head);
    moves->seek_ns += way.seek_ns;
    moves->turn_ns += way.turn_ns;
    moves->transfer_ns += transfer;
    disk->head = position + size;
    disk->free_at = at + way.seek_ns + way.turn_ns + transfer;
    disk->works = true;
}

static bool is_hit(Platter *disk, const Op *op, int64_t at) {
    int found = segment_of(disk, op->position, at);
    if (found < 0) return false;
    int64_t end = found == disk->growing ? head_at(disk, at) : disk->read[found].end;
    return op->position + op->size <= end;
}

static bool fits_cache(const Platter *disk, const Op *op) {
    return disk->dirty_bytes + op->size <= disk->shape->cache_bytes && disk->dirty_count < disk->shape->cached_max;
}

/* Requests that need no head: writes that the cache has room for, reads of what was read on. */
static bool admit(Platter *disk, int64_t at) {
    int seen = 0;
    for (Op **each = &disk->first; *each && (*each)->kind != FLUSH && seen < disk->shape->queue_max; seen++) {
        Op *op = *each;
        bool fits = op->kind == WRITE && fits_cache(disk, op);
        bool hit = op->kind == READ && is_hit(disk, op, at);
        if (!fits && !hit) {
            each = &op->next;
            continue;
        }
        take_out(disk, each);
        if (fits) {
            keep(disk, op->position, op->position + op->size, at);
            drop_read(disk, op->position, op->position + op->size);
        } else disk->moves[READ].cached++;
        op->done(op, at);
        return true;
    }
    return false;
}

static Op **best_op(Platter *disk, int64_t at) {
    Op **best = NULL;
    int64_t least = NEVER;
    int seen = 0;
    for (Op **each = &disk->first; *each && (*each)->kind != FLUSH && seen < disk->shape->queue_max;
         each = &(*each)->next, seen++) {
        if ((*each)->kind == WRITE && disk->shape->cache_bytes) continue; /* it waits for room */
        if (!(*each)->seen) (*each)->seen = at;
        if (at - (*each)->seen > OLD_NS) return each;
        int64_t time = cost(disk, at, (*each)->position);
        if (time < least) best = each, least = time;
    }
    return best;
}

static void drain(Platter *disk, int64_t at) {
    Extent *chosen = &disk->dirty[nearest_dirty(disk, at)];
    int64_t position = chosen->begin, size = chosen->end - chosen->begin;
    if (size > SLICE) size = SLICE;
    chosen->begin += size;
    disk->dirty_bytes -= size;
    if (chosen->begin == chosen->end) {
        int64_t behind = disk->dirty + disk->dirty_count - chosen - 1;
        memmove(chosen, chosen + 1, (size_t)behind * sizeof *chosen);
        disk->dirty_count--;
    }
    disk->drained_last = true;
    begin(disk, WRITE, position, size, at);
}

/* A part of a read that was read on already costs nothing. */
static void begin_op(Platter *disk, Op **at_op, int64_t at) {
    Op *op = *at_op;
    take_out(disk, at_op);
    int64_t position = op->position, end = op->position + op->size;
    int found = op->kind == READ ? segment_of(disk, position, at) : -1;
    if (found >= 0) position = found == disk->growing ? head_at(disk, at) : disk->read[found].end;
    disk->current = op;
    disk->drained_last = false;
    begin(disk, op->kind, position, end - position, at);
}

/* A flush waits for all that was cached, and nothing behind it begins. */
static bool flush(Platter *disk, int64_t at) {
    if (!disk->flush_until) {
        disk->flushes++;
        disk->flush_ns -= at;
        disk->flush_until = at + (disk->unflushed ? disk->shape->flush_ns : 1);
    }
    if (disk->dirty_count) return drain(disk, at), true;
    if (at < disk->flush_until) return false;
    Op *op = disk->first;
    disk->flush_until = 0;
    disk->unflushed = false;
    disk->flush_ns += at;
    take_out(disk, &disk->first);
    op->done(op, at);
    return true;
}

static bool start(Platter *disk, int64_t at) {
    if (disk->first && disk->first->kind == FLUSH) return flush(disk, at);
    Op **best = best_op(disk, at);
    bool full = disk->dirty_bytes > disk->shape->cache_bytes / 4 * 3 ||
                disk->dirty_count > disk->shape->cached_max / 4 * 3;
    bool old = disk->dirty_count && at - disk->dirty[0].since > OLD_NS;
    if (disk->dirty_count && (!best || ((full || old) && !disk->drained_last))) return drain(disk, at), true;
    return best ? begin_op(disk, best, at), true : false;
}

static void end_current(Platter *disk, int64_t at) {
    Op *op = disk->current;
    disk->works = false;
    disk->current = NULL;
    if (!op) return;
    if (op->kind == READ) grow(disk, op, at);
    op->done(op, at);
}

bool platter_step(Platter *disk, int64_t at) {
    if (disk->works && at < disk->free_at) return admit(disk, at);
    if (disk->works) return end_current(disk, at), true;
    return admit(disk, at) || start(disk, at);
}

int64_t platter_next(const Platter *disk) {
    if (disk->works) return disk->free_at;
    return disk->flush_until && !disk->dirty_count ? disk->flush_until : NEVER;
}
