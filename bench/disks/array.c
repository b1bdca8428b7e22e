#include "array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Done)(Op *, int64_t);

static void ask(Array *array, int member, Kind kind, int64_t position, int64_t size, Done done, void *owner) {
    Op *op = calloc(1, sizeof *op);
    *op = (Op){.kind = kind, .position = position, .size = size, .done = done, .owner = owner};
    platter_add(&array->disks[member], op);
}

static void part_done(Op *op, int64_t at) {
    Request *request = op->owner;
    free(op);
    if (!--request->parts) request->done(request, at);
}

/* RAID-5 */

static bool has(const Pages *pages, int page) { return pages->bits[page / 64] >> (page % 64) & 1; }
static void add(Pages *pages, int page) { pages->bits[page / 64] |= (uint64_t)1 << (page % 64); }

static int parity_member(const Array *array, int64_t stripe) {
    return (int)(array->members - 1 - stripe % array->members);
}

/* Column members - 1 is parity's. */
static int member_of(const Array *array, int64_t stripe, int column) {
    int parity = parity_member(array, stripe);
    return (int)(column == array->members - 1 ? parity : (parity + 1 + column) % array->members);
}

static int rows_of(const Array *array, const Stripe *stripe) {
    int rows = 0;
    for (int word = 0; word < WORDS; word++) {
        uint64_t any = 0;
        for (int i = 0; i < array->members; i++)
            any |= stripe->wanted[i].bits[word] | stripe->writing[i].bits[word] | stripe->known[i].bits[word];
        rows += __builtin_popcountll(any);
    }
    return rows;
}

static void unlink_stripe(Array *array, Stripe *stripe) {
    *(stripe->older ? &stripe->older->newer : &array->oldest) = stripe->newer;
    *(stripe->newer ? &stripe->newer->older : &array->newest) = stripe->older;
}

static void link_newest(Array *array, Stripe *stripe) {
    stripe->older = array->newest;
    stripe->newer = NULL;
    *(array->newest ? &array->newest->newer : &array->oldest) = stripe;
    array->newest = stripe;
}

static bool is_idle(const Stripe *stripe) { return !stripe->is_busy && !stripe->waiting; }

static void forget(Array *array, Stripe *stripe) {
    Stripe **at = &array->buckets[stripe->number % BUCKETS];
    while (*at != stripe) at = &(*at)->next;
    *at = stripe->next;
    unlink_stripe(array, stripe);
    free(stripe);
}

/* The cache of stripes is small: the oldest idle ones leave it, and what waits to be whole no longer may. */
static void make_room(Array *array) {
    int rows = 0;
    for (Stripe *each = array->newest, *older; each; each = older) {
        older = each->older;
        rows += rows_of(array, each);
        if (rows <= array->rows_max) continue;
        if (is_idle(each)) forget(array, each);
        else each->due = array->now;
    }
}

static Stripe *stripe_of(Array *array, int64_t number) {
    Stripe *stripe = array->buckets[number % BUCKETS];
    while (stripe && stripe->number != number) stripe = stripe->next;
    if (stripe) unlink_stripe(array, stripe);
    else {
        stripe = calloc(1, sizeof *stripe);
        stripe->number = number;
        stripe->due = NEVER;
        stripe->next = array->buckets[number % BUCKETS];
        array->buckets[number % BUCKETS] = stripe;
    }
    link_newest(array, stripe);
    return stripe;
}

static bool is_whole(const Array *array, const Stripe *stripe) {
    for (int page = 0; page < array->chunk / PAGE; page++)
        for (int i = 0; i < array->members - 1; i++)
            if (!has(&stripe->wanted[i], page)) return false;
    return true;
}

static void want(Array *array, Request *request, int64_t number, int64_t begin, int64_t end) {
    Stripe *stripe = stripe_of(array, number);
    Waiting *waiting = calloc(1, sizeof *waiting);
    *waiting = (Waiting){stripe->waiting, request};
    stripe->waiting = waiting;
    for (int64_t at = begin / PAGE * PAGE; at < end; at += PAGE)
        add(&stripe->wanted[at / array->chunk], (int)(at % array->chunk / PAGE));
    if (stripe->due == NEVER) stripe->due = array->now + array->gather_ns;
    if (is_whole(array, stripe)) stripe->due = array->now;
}

static void written(Op *op, int64_t at);
static void read_before(Op *op, int64_t at);

/* Asks for each run of pages that follow each other. */
static int ask_runs(Array *array, Stripe *stripe, int column, const Pages *pages, Kind kind, bool only_count) {
    int runs = 0, last = (int)(array->chunk / PAGE);
    for (int page = 0; page < last; page++) {
        if (!has(pages, page)) continue;
        int begin = page;
        while (page < last && has(pages, page)) page++;
        runs++;
        if (!only_count)
            ask(array, member_of(array, stripe->number, column), kind,
                stripe->number * array->chunk + (int64_t)begin * PAGE, (int64_t)(page - begin) * PAGE,
                kind == READ ? read_before : written, stripe);
    }
    return runs;
}

/* What a row lacks for its parity: the old data and parity of what is written, or all the rest. */
static void plan_row(Array *array, Stripe *stripe, int page, Pages *reads) {
    int parity = (int)array->members - 1, old = has(&stripe->known[parity], page) ? 0 : 1, rest = 0, some = 0;
    for (int i = 0; i < parity; i++) {
        bool writes = has(&stripe->writing[i], page), known = has(&stripe->known[i], page);
        some += writes;
        old += writes && !known;
        rest += !writes && !known;
    }
    if (!some) return;
    if (some == parity) array->whole_rows++;
    else array->read_rows += old && rest;
    bool of_old = old < rest;
    for (int i = 0; i < parity; i++)
        if (has(&stripe->writing[i], page) == of_old && !has(&stripe->known[i], page)) add(&reads[i], page);
    if (of_old && !has(&stripe->known[parity], page)) add(&reads[parity], page);
    add(&stripe->writing[parity], page);
}

static void ask_all(Array *array, Stripe *stripe, Pages *of, Kind kind) {
    stripe->parts = 0;
    for (int i = 0; i < array->members; i++) stripe->parts += ask_runs(array, stripe, i, &of[i], kind, true);
    for (int i = 0; i < array->members; i++) ask_runs(array, stripe, i, &of[i], kind, false);
}

static void handle(Array *array, Stripe *stripe) {
    Pages reads[MEMBERS_MAX];
    memset(reads, 0, sizeof reads);
    memcpy(stripe->writing, stripe->wanted, sizeof stripe->writing);
    memset(stripe->wanted, 0, sizeof stripe->wanted);
    stripe->served = stripe->waiting;
    stripe->waiting = NULL;
    stripe->due = NEVER;
    stripe->is_busy = true;
    for (int page = 0; page < array->chunk / PAGE; page++) plan_row(array, stripe, page, reads);
    ask_all(array, stripe, reads, READ);
    for (int i = 0; i < array->members; i++)
        for (int word = 0; word < WORDS; word++)
            stripe->known[i].bits[word] |= reads[i].bits[word] | stripe->writing[i].bits[word];
    if (!stripe->parts) ask_all(array, stripe, stripe->writing, WRITE);
}

static Array *the_array; /* a process has one */

static void read_before(Op *op, int64_t at) {
    Stripe *stripe = op->owner;
    (void)at;
    free(op);
    if (!--stripe->parts) ask_all(the_array, stripe, stripe->writing, WRITE);
}

static void written(Op *op, int64_t at) {
    Stripe *stripe = op->owner;
    free(op);
    if (--stripe->parts) return;
    stripe->is_busy = false;
    memset(stripe->writing, 0, sizeof stripe->writing);
    Waiting *served = stripe->served;
    stripe->served = NULL;
    while (served) {
        Waiting *next = served->next;
        if (!--served->request->parts) served->request->done(served->request, at);
        free(served);
        served = next;
    }
}

static void write_stripes(Array *array, Request *request) {
    int64_t line = array->chunk * (array->members - 1), end = request->offset + request->size;
    request->parts = (int)((end - 1) / line - request->offset / line + 1);
    for (int64_t at = request->offset; at < end; at = (at / line + 1) * line) {
        int64_t begin = at % line, most = end - at / line * line;
        want(array, request, at / line, begin, most < line ? most : line);
    }
    make_room(array);
}

/* Everything else is a map from chunks to members. */

static int nearest_copy(const Array *array, int first, int copies, int64_t position) {
    int best = first;
    for (int i = first; i < first + copies; i++) {
        const Platter *each = &array->disks[i], *least = &array->disks[best];
        if (llabs(each->head - position) < llabs(least->head - position)) best = i;
    }
    return best;
}

static int copies_of(const Array *array) {
    return array->level == 10 ? 2 : array->level == 1 ? (int)array->members : 1;
}

static void ask_chunk(Array *array, Request *request, int64_t chunk, int64_t within, int64_t size) {
    int data = array_data_members(array), copies = copies_of(array);
    int64_t line = chunk / data, position = line * array->chunk + within;
    int first = (int)(chunk % data) * copies;
    if (array->level == 5) first = member_of(array, line, (int)(chunk % data));
    if (request->kind == READ && copies > 1) first = nearest_copy(array, first, copies, position), copies = 1;
    for (int i = first; i < first + copies; i++) ask(array, i, request->kind, position, size, part_done, request);
}

static void ask_chunks(Array *array, Request *request) {
    int64_t chunk = array->chunk, end = request->offset + request->size;
    if (array->members == 1 || array->level == 1) chunk = array->size; /* one piece */
    int copies = request->kind == READ ? 1 : copies_of(array);
    request->parts = copies * (int)((end - 1) / chunk - request->offset / chunk + 1);
    int64_t kept = array->chunk;
    array->chunk = chunk;
    for (int64_t at = request->offset, next; at < end; at = next) {
        next = (at / chunk + 1) * chunk;
        if (next > end) next = end;
        ask_chunk(array, request, at / chunk, at % chunk, next - at);
    }
    array->chunk = kept;
}

static void flush_members(Array *array, Request *request) {
    request->parts = (int)array->members;
    for (Stripe *each = array->oldest; each; each = each->newer)
        if (each->waiting) each->due = array->now;
    for (int i = 0; i < array->members; i++) ask(array, i, FLUSH, 0, 0, part_done, request);
}

void array_add(Array *array, Request *request, int64_t now) {
    the_array = array;
    array->now = now;
    if (request->kind == FLUSH) flush_members(array, request);
    else if (request->kind == WRITE && array->level == 5) write_stripes(array, request);
    else ask_chunks(array, request);
}

static int64_t stripes_next(const Array *array) {
    int64_t next = NEVER;
    for (const Stripe *each = array->oldest; each; each = each->newer)
        if (each->waiting && !each->is_busy && each->due < next) next = each->due;
    return next;
}

int64_t array_next(const Array *array) {
    int64_t next = stripes_next(array);
    for (int i = 0; i < array->members; i++) {
        int64_t each = platter_next(&array->disks[i]);
        if (each < next) next = each;
    }
    return next;
}

static bool step(Array *array) {
    bool did = false;
    for (Stripe *each = array->oldest, *newer; each; each = newer) {
        newer = each->newer;
        if (each->waiting && !each->is_busy && each->due <= array->now) handle(array, each), did = true;
    }
    for (int i = 0; i < array->members; i++)
        while (platter_step(&array->disks[i], array->now)) did = true;
    return did;
}

void array_run(Array *array, int64_t until) {
    while (step(array)) {}
    for (int64_t next = array_next(array); next <= until; next = array_next(array)) {
        if (next > array->now) array->now = next;
        while (step(array)) {}
    }
}
