/* The minimum work of a broker for real producers: it reads a batch, writes it to a file and responds.
 *
 *   floor_broker LISTENER FILE ANSWERS
 *
 * LISTENER is an open socket. ANSWERS is a folder with a file KEY-VERSION for each response that is
 * always the same: what stands behind its correlation id. Produce (v3) is answered here. There are no
 * checks, all partitions are one log, and its file is never synced: what a client gets from this, and
 * what it costs, is the machine's and the client's, and only the rest is a broker's.
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
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 8 << 20, ANSWER = 1 << 16, PRODUCE = 0 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next two */
static uint64_t end_offset, end_position;
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
    uint64_t offset = end_offset;
    put(batch, offset, 8);
    check(pwrite(file, batch, size, (off_t)end_position), "pwrite");
    end_offset += get(batch + 23, 4) + 1;
    end_position += size;
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

static void answer(int fd, const unsigned char *at) {
    static __thread unsigned char out[ANSWER];
    int key = (int)get(at, 2), version = (int)get(at + 2, 2), acks = 1;
    const unsigned char *body = behind_text(at + 8), *from = out;
    unsigned char *end = out + 8;
    end = key == PRODUCE ? produce(body, end, &acks) : from_file(key, version, end);
    if (acks == 0) return;
    put(put(out, (uint64_t)(end - out) - 4, 4), get(at + 4, 4), 4);
    while (from < end) {
        ssize_t sent = send(fd, from, (size_t)(end - from), MSG_NOSIGNAL);
        if (sent < 0) return; /* the client is gone, which the next read tells */
        from += sent;
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
            answer(fd, at + 4);
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
