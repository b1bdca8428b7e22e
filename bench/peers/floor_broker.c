/* The minimum work of a broker for real clients: it reads a batch, writes it to a file, and sends it
 * from there.
 *
 *   floor_broker LISTENER FILE ANSWERS
 *
 * LISTENER is an open socket. ANSWERS is a folder with a file KEY-VERSION for each response that is
 * always the same: what stands behind its correlation id. Produce (v3), Fetch (v4) and ListOffsets (v1)
 * are answered here. There are no checks, all partitions are one log, and its file is never synced: what
 * a client gets from this, and what it costs, is the machine's and the client's, and only the rest is a
 * broker's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 8 << 20, BATCHES = 1 << 21, ANSWER = 1 << 16, WAIT_US = 10000 };
enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2 };

typedef struct {
    uint64_t offset, position;
} Batch;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next three */
static Batch batches[BATCHES + 1];                       /* the last one begins where the log ends */
static size_t count;
static int file;
static const char *answers;

static void check(long result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "floor_broker: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

static unsigned char *put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (unsigned char)value;
    return at + bytes;
}

static const unsigned char *behind_text(const unsigned char *at) {
    int16_t size = (int16_t)get(at, 2);
    return at + 2 + (size > 0 ? size : 0);
}

static uint64_t append(unsigned char *batch, size_t size) {
    pthread_mutex_lock(&lock);
    uint64_t offset = batches[count].offset;
    put(batch, offset, 8);
    check(pwrite(file, batch, size, (off_t)batches[count].position), "pwrite");
    if (count == BATCHES) errno = ENOSPC, check(-1, "batches");
    batches[count + 1].offset = offset + get(batch + 23, 4) + 1;
    batches[count + 1].position = batches[count].position + size;
    count++;
    pthread_mutex_unlock(&lock);
    return offset;
}

static unsigned char *produce(const unsigned char *at, unsigned char *out, int *acks) {
    at = behind_text(at); /* transactional id */
    *acks = (int16_t)get(at, 2);
    uint32_t topics = (uint32_t)get(at + 6, 4);
    at += 10;
    out = put(out, topics, 4);
    while (topics--) {
        const unsigned char *name = at;
        at = behind_text(at);
        memcpy(out, name, (size_t)(at - name));
        out += at - name;
        uint32_t partitions = (uint32_t)get(at, 4);
        out = put(out, partitions, 4);
        at += 4;
        while (partitions--) {
            size_t size = get(at + 4, 4);
            uint64_t offset = append((unsigned char *)at + 8, size);
            out = put(put(put(put(out, get(at, 4), 4), 0, 2), offset, 8), UINT64_MAX, 8);
            at += 8 + size;
        }
    }
    return put(out, 0, 4);
}

/* The batches from `offset` on, at least one; waits a moment for them. */
static size_t find(uint64_t offset, uint64_t most, Batch *first, uint64_t *end) {
    for (int tries = 2; tries--; usleep(WAIT_US)) {
        pthread_mutex_lock(&lock);
        size_t low = 0, high = count, last;
        while (low < high) {
            size_t middle = (low + high + 1) / 2;
            if (batches[middle].offset <= offset) low = middle;
            else high = middle - 1;
        }
        for (last = low; last < count; last++)
            if (last > low && batches[last + 1].position - batches[low].position > most) break;
        *first = batches[low];
        *end = batches[count].offset;
        uint64_t size = batches[last].position - batches[low].position;
        pthread_mutex_unlock(&lock);
        if (size) return size;
    }
    return 0;
}

/* Of one partition: its row ends with the offset (8), the most bytes (4), and nothing else. */
static unsigned char *fetch(const unsigned char *request, const unsigned char *end,
                            unsigned char *out, Batch *first, size_t *size) {
    uint64_t log_end;
    const unsigned char *name = request + 4 + 4 + 4 + 4 + 1 + 4;
    const unsigned char *behind = behind_text(name);
    if (end < behind + 4 + 4 + 12) { /* nothing is asked for */
        *size = 0;
        return put(put(out, 0, 4), 0, 4);
    }
    *size = find(get(end - 12, 8), get(end - 4, 4), first, &log_end);
    out = put(put(out, 0, 4), 1, 4);
    memcpy(out, name, (size_t)(behind - name));
    out = put(put(put(out + (behind - name), 1, 4), 0, 4), 0, 2);
    return put(put(put(put(out, log_end, 8), log_end, 8), UINT32_MAX, 4), *size, 4);
}

static unsigned char *list_offsets(const unsigned char *request, unsigned char *out) {
    const unsigned char *name = request + 4 + 4, *behind = behind_text(name);
    int64_t time = (int64_t)get(behind + 8, 8);
    out = put(out, 1, 4);
    memcpy(out, name, (size_t)(behind - name));
    out = put(put(put(out + (behind - name), 1, 4), 0, 4), 0, 2);
    pthread_mutex_lock(&lock);
    uint64_t offset = time == -1 ? batches[count].offset : 0;
    pthread_mutex_unlock(&lock);
    return put(put(out, UINT64_MAX, 8), offset, 8);
}

static unsigned char *from_file(int key, int version, unsigned char *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-%d", answers, key, version);
    int from = open(path, O_RDONLY);
    check(from, path);
    ssize_t got = read(from, out, ANSWER / 2);
    check(got, path);
    close(from);
    return out + got;
}

static void send_whole(int fd, const unsigned char *bytes, const unsigned char *end, int flags) {
    while (bytes < end) {
        ssize_t sent = send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL | flags);
        if (sent < 0) return; /* the client is gone, which the next read tells */
        bytes += sent;
    }
}

static void answer(int fd, const unsigned char *at, const unsigned char *end) {
    static __thread unsigned char out[ANSWER];
    int key = (int)get(at, 2), version = (int)get(at + 2, 2), acks = 1;
    const unsigned char *body = behind_text(at + 8);
    unsigned char *to = out + 8;
    Batch first = {0, 0};
    size_t size = 0;
    if (key == PRODUCE) to = produce(body, to, &acks);
    else if (key == FETCH) to = fetch(body, end, to, &first, &size);
    else if (key == LIST_OFFSETS) to = list_offsets(body, to);
    else to = from_file(key, version, to);
    if (acks == 0) return;
    put(put(out, (uint64_t)(to - out) - 4 + size, 4), get(at + 4, 4), 4);
    send_whole(fd, out, to, size ? MSG_MORE : 0);
    off_t position = (off_t)first.position;
    while (size) {
        ssize_t sent = sendfile(fd, file, &position, size);
        if (sent <= 0) return;
        size -= (size_t)sent;
    }
}

static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument;
    unsigned char *room = malloc(ROOM), *end = room;
    for (;;) {
        ssize_t got = recv(fd, end, (size_t)(room + ROOM - end), 0);
        if (got <= 0) break;
        end += got;
        unsigned char *at = room;
        while (end - at >= 4 && (size_t)(end - at) >= get(at, 4) + 4) {
            answer(fd, at + 4, at + 4 + get(at, 4));
            at += get(at, 4) + 4;
        }
        memmove(room, at, (size_t)(end - at));
        end = room + (end - at);
    }
    free(room);
    close(fd);
    return NULL;
}

int main(int words, char **word) {
    if (words != 4) return fprintf(stderr, "see the head of floor_broker.c\n"), 2;
    file = open(word[2], O_CREAT | O_RDWR, 0600);
    check(file, word[2]);
    answers = word[3];
    for (;;) {
        int one = 1, fd = accept(atoi(word[1]), NULL, NULL);
        pthread_t thread;
        check(fd, "accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        check(-pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd), "pthread_create");
        pthread_detach(thread);
    }
}
