/* The minimum work of a broker for probe.c: it reads a request, writes it to a file and responds.
 *
 *   floor FILE PRODUCE_ANSWER FETCH_ANSWER RECORDS_AT BATCH_BYTES IS_DURABLE
 *
 * It has no topics, no checks and no second thread: this much time is the machine's, and only the rest
 * is a broker's. A response to a produce has PRODUCE_ANSWER bytes, all 0 except the correlation id. One
 * fetch waits at a time; its response has FETCH_ANSWER bytes and BATCH_BYTES for every produce, with
 * their length at RECORDS_AT. With IS_DURABLE 1 what was read at once is synced before the responses. The
 * floor prints its port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "_wake_soon.h"

enum { ROOM = 1 << 20, FETCH_BYTES = 1 << 19, EVENTS = 64, PRODUCE = 0 };

typedef struct {
    uint32_t produce_answer, fetch_answer, records_at, batch_bytes;
    int file, epoll, is_durable;
    uint32_t unseen; /* produces that no fetch response has covered */
    int waiting;     /* the connection whose fetch waits, or -1 */
    uint32_t waiting_id;
    unsigned char input[ROOM], output[ROOM];
} Floor;

static void check(long result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t get32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put32(unsigned char *at, uint32_t value) {
    for (int i = 3; i >= 0; i--, value >>= 8) at[i] = (unsigned char)value;
}

static unsigned char *answer(unsigned char *at, uint32_t size, uint32_t correlation_id) {
    memset(at, 0, size);
    put32(at, size - 4);
    put32(at + 4, correlation_id);
    return at + size;
}

static void send_whole(int fd, const unsigned char *bytes, const unsigned char *end) {
    while (bytes < end) {
        ssize_t sent = send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL);
        check(sent, "send");
        bytes += sent;
    }
}

static void answer_fetch(Floor *floor) {
    if (floor->waiting < 0 || !floor->unseen) return;
    uint32_t most = FETCH_BYTES / floor->batch_bytes, told = floor->unseen;
    if (told > most) told = most;
    uint32_t bytes = told * floor->batch_bytes;
    unsigned char *end = answer(floor->output, floor->fetch_answer + bytes, floor->waiting_id);
    put32(floor->output + floor->records_at, bytes);
    send_whole(floor->waiting, floor->output, end);
    floor->waiting = -1;
    floor->unseen -= told;
}

/* The probe sends whole frames, and never more than the input buffer holds. */
static void serve(Floor *floor, int fd) {
    ssize_t got = recv(fd, floor->input, ROOM, 0);
    if (got <= 0) {
        if (floor->waiting == fd) floor->waiting = -1;
        close(fd);
        return;
    }
    unsigned char *end = floor->output;
    uint32_t unseen = floor->unseen;
    for (unsigned char *at = floor->input; at < floor->input + got; at += get32(at) + 4) {
        uint32_t correlation_id = get32(at + 8);
        if ((at[4] << 8 | at[5]) != PRODUCE) {
            floor->waiting = fd;
            floor->waiting_id = correlation_id;
            continue;
        }
        floor->unseen++;
        end = answer(end, floor->produce_answer, correlation_id);
    }
    if (floor->unseen != unseen) {
        check(write(floor->file, floor->input, (size_t)got), "write");
        if (floor->is_durable) check(fdatasync(floor->file), "fdatasync");
    }
    send_whole(fd, floor->output, end);
    answer_fetch(floor);
}

static void add(Floor *floor, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    check(epoll_ctl(floor->epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void take(Floor *floor, int listener) {
    int fd = accept(listener, NULL, NULL), one = 1;
    check(fd, "accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* as ours within a machine: no pacing */
    add(floor, fd);
}

static int listener(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(fd, (struct sockaddr *)&address, size), "bind");
    check(listen(fd, 1024), "listen");
    check(getsockname(fd, (struct sockaddr *)&address, &size), "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int count, char **words) {
    static Floor floor;
    struct epoll_event ready[EVENTS];
    if (count != 7) return fprintf(stderr, "see the head of floor.c\n"), 2;
    floor.file = open(words[1], O_CREAT | O_WRONLY | O_APPEND, 0600);
    check(floor.file, words[1]);
    floor.produce_answer = (uint32_t)atoi(words[2]);
    floor.fetch_answer = (uint32_t)atoi(words[3]);
    floor.records_at = (uint32_t)atoi(words[4]);
    floor.batch_bytes = (uint32_t)atoi(words[5]);
    floor.is_durable = atoi(words[6]);
    floor.waiting = -1;
    floor.epoll = epoll_create1(0);
    wake_soon();
    int accepting = listener();
    add(&floor, accepting);
    for (;;) {
        int some = epoll_wait(floor.epoll, ready, EVENTS, -1);
        for (int i = 0; i < some; i++) {
            if (ready[i].data.fd == accepting) take(&floor, accepting);
            else serve(&floor, ready[i].data.fd);
        }
    }
}
