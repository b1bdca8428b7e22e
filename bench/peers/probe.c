/* A client with the least possible cost: it sends given frames, and measures in nanoseconds.
 *
 *   probe requests HOST PORT FRAME ZERO_AT CONNECTIONS DEPTH SECONDS
 *     Each connection keeps DEPTH requests in flight. The two bytes at ZERO_AT of every response are
 *     its error code and must be 0. FRAME may hold several frames, one behind the other: the requests
 *     of all connections take them in turn. With as many of both each connection has its own.
 *   probe latency HOST PORT PRODUCE ZERO_AT FETCH OFFSET_AT OFFSET RECORDS_AT BATCH_BYTES RATE COUNT
 *     RATE records a second, one per request, and a fetch that always waits for the next. A latency
 *     counts from the time when the record was due, so a slow response does not hide later delays.
 *     The probe asks the kernel for short time slices, because it stands for a client on another
 *     machine, where no broker competes for its core.
 *
 * FRAME is a file with whole frames, PRODUCE and FETCH have one each. The result is one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../appliance/native/_wake_soon.h"

enum { INPUT = 1 << 20, SOURCES = 5, PATIENCE_MS = 60000 }; /* on a slow disk an answer may take seconds */

typedef struct { char *bytes; size_t size; } Frame;
typedef struct { Frame *each; size_t count, step; } Frames;
typedef struct {
    int fd;
    size_t next; /* of the frames */
    uint32_t filled;
    uint64_t sent, answered;
    uint64_t *sent_at; /* a ring of the requests in flight */
    unsigned char *input;
} Connection;
typedef struct { uint64_t *each; size_t count, room; } Latencies;

static void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("probe: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint32_t get32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put64(char *at, uint64_t value) {
    for (int i = 7; i >= 0; i--, value >>= 8) at[i] = (char)value;
}

static Frame file_in(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("%s: %s", path, strerror(errno));
    Frame whole = {NULL, (size_t)ftell(file)};
    whole.bytes = malloc(whole.size);
    rewind(file);
    if (fread(whole.bytes, 1, whole.size, file) != whole.size) fail("%s: %s", path, strerror(errno));
    fclose(file);
    return whole;
}

static Frames frames_in(const char *path, size_t connections) {
    Frame whole = file_in(path);
    Frames found = {NULL, 0, 0};
    for (size_t at = 0, size; at < whole.size; at += size) {
        if (whole.size - at < 4 || (size = get32((unsigned char *)whole.bytes + at) + 4) > whole.size - at)
            fail("%s: no whole frame at %zu of %zu bytes", path, at, whole.size);
        if (found.count % 1024 == 0) found.each = realloc(found.each, (found.count + 1024) * sizeof *found.each);
        found.each[found.count++] = (Frame){whole.bytes + at, size};
    }
    if (!found.count) fail("%s is empty", path);
    found.step = connections % found.count;
    return found;
}

/* Thousands come from several addresses: our broker lets one address have a part of all. */
static Connection connection_to(const char *host, const char *port, int depth, int number) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("%s is no IPv4 address", host);
    Connection made = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001u + (uint32_t)number % SOURCES)};
    int late = 1; /* the port is chosen at the connect: the same one may serve several addresses */
    setsockopt(made.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late);
    if (bind(made.fd, (struct sockaddr *)&source, sizeof source)) fail("bind: %s", strerror(errno));
    if (connect(made.fd, (struct sockaddr *)&address, sizeof address)) fail("connect: %s", strerror(errno));
    int one = 1;
    setsockopt(made.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    made.sent_at = calloc((size_t)depth, sizeof *made.sent_at);
    made.input = malloc(INPUT);
    return made;
}

static void send_whole(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0) fail("send: %s", strerror(errno));
        bytes += sent;
        size -= (size_t)sent;
    }
}

static void receive(Connection *from) {
    ssize_t got = recv(from->fd, from->input + from->filled, INPUT - from->filled, 0);
    if (got <= 0) fail("the broker closed the connection");
    from->filled += (uint32_t)got;
}

/* The size of the first complete frame with its length bytes; 0 if there is none. */
static uint32_t whole_frame(const Connection *from, uint32_t at) {
    if (from->filled - at < 4) return 0;
    uint32_t size = get32(from->input + at) + 4;
    if (size > INPUT) fail("an answer of %u bytes", size);
    return from->filled - at < size ? 0 : size;
}

static void drop_input(Connection *from, uint32_t bytes) {
    memmove(from->input, from->input + bytes, from->filled - bytes);
    from->filled -= bytes;
}

static void check_answer(const unsigned char *answer, uint32_t size, uint32_t zero_at) {
    if (zero_at + 2 > size || answer[zero_at] || answer[zero_at + 1])
        fail("an answer of %u bytes has error %d", size,
             zero_at + 2 > size ? -1 : answer[zero_at] << 8 | answer[zero_at + 1]);
}

static void note(Latencies *all, uint64_t nanoseconds) {
    if (all->count == all->room) {
        all->room = all->room ? all->room * 2 : 1 << 16;
        all->each = realloc(all->each, all->room * sizeof *all->each);
        if (!all->each) fail("no memory for %zu latencies", all->room);
    }
    all->each[all->count++] = nanoseconds;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void print_latencies(const char *name, Latencies *all) {
    if (!all->count) fail("nothing was measured");
    qsort(all->each, all->count, sizeof *all->each, by_size);
    const struct { const char *name; size_t in_1000; } cuts[] = {
        {"p50", 500}, {"p99", 990}, {"p99.9", 999},
    };
    for (size_t cut = 0; cut < sizeof cuts / sizeof *cuts; cut++)
        printf("\"%s_%s_us\": %.1f, ", name, cuts[cut].name,
               (double)all->each[all->count * cuts[cut].in_1000 / 1000] / 1e3);
    printf("\"%s_max_us\": %.1f, ", name, (double)all->each[all->count - 1] / 1e3);
}

/* Requests */

static void send_next(Connection *to, const Frames *frames, int depth) {
    const Frame *frame = &frames->each[to->next];
    send_whole(to->fd, frame->bytes, frame->size);
    to->next = (to->next + frames->step) % frames->count;
    to->sent_at[to->sent++ % (uint64_t)depth] = now();
}

static void answers(Connection *from, const Frames *frames, uint32_t zero_at, int depth, Latencies *all) {
    uint32_t at = 0, size;
    int answered = 0;
    receive(from);
    uint64_t time = now();
    for (; (size = whole_frame(from, at)); at += size, answered++) {
        check_answer(from->input + at, size, zero_at);
        note(all, time - from->sent_at[from->answered++ % (uint64_t)depth]);
    }
    drop_input(from, at);
    for (; answered; answered--) {
        send_next(from, frames, depth);
    }
}

static void requests(char **words) {
    uint32_t zero_at = (uint32_t)atoi(words[3]);
    int connections = atoi(words[4]), depth = atoi(words[5]);
    Frames frames = frames_in(words[2], (size_t)connections);
    Connection *each = calloc((size_t)connections, sizeof *each);
    int epoll = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        each[i] = connection_to(words[0], words[1], depth, i);
        each[i].next = (size_t)i % frames.count;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &each[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, each[i].fd, &event);
    }
    for (int i = 0; i < connections; i++) {
        for (int sent = 0; sent < depth; sent++) send_next(&each[i], &frames, depth);
    }
    Latencies all = {0};
    uint64_t begin = now(), end = begin + (uint64_t)(atof(words[6]) * 1e9);
    struct epoll_event ready[64];
    while (now() < end) {
        int some = epoll_wait(epoll, ready, 64, PATIENCE_MS);
        if (some == 0) fail("no answer in %d s", PATIENCE_MS / 1000);
        for (int i = 0; i < some; i++) answers(ready[i].data.ptr, &frames, zero_at, depth, &all);
    }
    double seconds = (double)(now() - begin) / 1e9;
    printf("{");
    print_latencies("answer", &all);
    printf("\"answers\": %zu, \"seconds\": %.3f}\n", all.count, seconds);
}

/* Latency */

static uint32_t batches_in(const unsigned char *answer, uint32_t size, uint32_t records_at, uint32_t batch_bytes) {
    if (records_at + 4 > size) fail("a fetch answered %u bytes, not even its head", size);
    uint32_t bytes = get32(answer + records_at);
    if (bytes == UINT32_MAX) return 0;
    if (bytes % batch_bytes) fail("%u bytes of records are not whole batches of %u", bytes, batch_bytes);
    return bytes / batch_bytes;
}

static void latency(char **words) {
    Frame produce = file_in(words[2]), fetch = file_in(words[4]);
    uint32_t zero_at = (uint32_t)atoi(words[3]), offset_at = (uint32_t)atoi(words[5]);
    uint64_t offset = strtoull(words[6], NULL, 10);
    uint32_t records_at = (uint32_t)atoi(words[7]), batch_bytes = (uint32_t)atoi(words[8]), size;
    wake_soon();
    uint64_t gap = (uint64_t)(1e9 / atof(words[9])), count = strtoull(words[10], NULL, 10);
    Connection producer = connection_to(words[0], words[1], 1, 0), consumer = connection_to(words[0], words[1], 1, 0);
    Latencies acked = {0}, seen = {0};
    put64(fetch.bytes + offset_at, offset);
    send_whole(consumer.fd, fetch.bytes, fetch.size);
    uint64_t begin = now() + 100000000, sent = 0, got = 0, answered = 0;
    while (got < count || answered < count) {
        uint64_t time = now(), due = begin + sent * gap;
        if (sent < count && time >= due) {
            send_whole(producer.fd, produce.bytes, produce.size);
            sent++;
            due += gap;
        }
        /* Reads also when it is late: a broker closes a client that sends and does not read. */
        struct pollfd ready[2] = {{producer.fd, POLLIN, 0}, {consumer.fd, POLLIN, 0}};
        struct timespec wait = {5, 0};
        if (sent < count) {
            time = now();
            uint64_t left = due > time ? due - time : 0;
            wait = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        }
        if (ppoll(ready, 2, &wait, NULL) == 0 && sent == count) fail("nothing for 5 s, at %lu of %lu", got, count);
        if (ready[0].revents) {
            receive(&producer);
            for (; (size = whole_frame(&producer, 0)); drop_input(&producer, size), answered++) {
                check_answer(producer.input, size, zero_at);
                note(&acked, now() - (begin + answered * gap));
            }
        }
        if (ready[1].revents) {
            receive(&consumer);
            for (; (size = whole_frame(&consumer, 0)); drop_input(&consumer, size)) {
                uint32_t batches = batches_in(consumer.input, size, records_at, batch_bytes);
                for (time = now(); batches; batches--, got++) note(&seen, time - (begin + got * gap));
                put64(fetch.bytes + offset_at, offset + got);
                send_whole(consumer.fd, fetch.bytes, fetch.size);
            }
        }
    }
    /* The first second warms up the broker. */
    size_t skipped = (size_t)(1e9 / (double)gap);
    if (skipped >= count) fail("%lu records are not more than one second's", count);
    Latencies late_acked = {acked.each + skipped, acked.count - skipped, 0}, late_seen = {seen.each + skipped, seen.count - skipped, 0};
    printf("{");
    print_latencies("ack", &late_acked);
    print_latencies("end_to_end", &late_seen);
    printf("\"records\": %zu}\n", late_seen.count);
}

int main(int count, char **words) {
    if (count == 9 && !strcmp(words[1], "requests")) requests(words + 2);
    else if (count == 13 && !strcmp(words[1], "latency")) latency(words + 2);
    else fail("see the head of probe.c");
    return 0;
}
