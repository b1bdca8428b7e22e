/* The minimum work of a broker for real clients: it appends a batch to a file and sends a file's bytes.
 *
 *   floor_broker LISTENER UPSTREAM DIRECTORY
 *
 * LISTENER is an open socket. UPSTREAM is the port of a real broker that has the same topics: every request
 * but Produce, Fetch and ListOffsets goes to it, one at a time, and its response comes back as it is. So
 * clients find what they need, groups too, and the cost of that is the other process's. Its ApiVersions is
 * capped to the last versions with fields at fixed positions, which are answered here. It keeps our promise:
 * a log is synced behind 10,000 records, or within a second, and before an answer with acks=all; whatever
 * came during one sync shares the next; and a batch has the checksum that it says (floor_crc.cc). There are
 * no other checks, a file in DIRECTORY for each partition and a thread for each connection: what a client
 * gets from this, and what it costs, is the machine's, the client's and the promise's, and only the rest is
 * a broker's.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "_wake_soon.h"

typedef unsigned char Byte;

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, API_VERSIONS = 18 };
enum { OFFSET_OUT_OF_RANGE = 1, CORRUPT_MESSAGE = 2 };
enum { CRC_AT = 17, SUMMED_AT = 21, COUNT_AT = 23, HEADER = 61 }; /* of a batch */
enum { PRODUCE_LAST = 7, FETCH_LAST = 11, LIST_OFFSETS_LAST = 5 };
enum { ROOM = 1 << 20, SLICES = 1024, NAME = 256, COPIED = 1 << 16 };
enum { SYNC_RECORDS = 10000, SYNC_S = 1, ACKS_ALL = -1 }; /* the defaults of our topics */
static const int64_t EARLIEST = -2;

typedef struct Log {
    struct Log *next;
    char name[NAME]; /* as in a request, with its length */
    size_t name_size;
    uint32_t partition;
    int file;
    pthread_mutex_t lock; /* of all below */
    uint64_t end_offset, end_position, unsynced_records;
    uint64_t *offsets, *positions; /* of each batch */
    size_t batches, room;
    uint64_t synced_position; /* the committer's alone */
} Log;

typedef struct {
    Byte *bytes;
    size_t size, room;
} Buffer;

typedef struct { /* what a Fetch gets of one partition */
    Log *log;
    uint64_t position, bytes, end_offset;
    int error;
    size_t behind; /* what of the response stands before its bytes */
} Slice;

typedef struct { /* a thread's */
    int client, upstream; /* upstream: -1 until it is needed */
    unsigned unanswered;  /* requests whose answers the committer has */
    Buffer in, out;
    Slice slices[SLICES];
} Connection;

typedef struct Answer { /* to a Produce with acks=all */
    struct Answer *next;
    Connection *on;
    size_t size;
    Byte bytes[];
} Answer;

static pthread_mutex_t commit_lock = PTHREAD_MUTEX_INITIALIZER; /* of the next, and of `unanswered` */
static Answer *first_answer, **last_answer = &first_answer;
static int commit_is_due;
static pthread_cond_t commit_wanted = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER; /* of the next */
static Log *logs;
static pthread_mutex_t news_lock = PTHREAD_MUTEX_INITIALIZER; /* of the next two */
static uint64_t appends;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static const char *directory;
static int upstream_port;

static void check(long result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "floor_broker: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t get(const Byte *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

static Byte *put(Byte *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (Byte)value;
    return at + bytes;
}

static const Byte *behind_text(const Byte *at) {
    int16_t size = (int16_t)get(at, 2);
    return at + 2 + (size > 0 ? size : 0);
}

static void reserve(Buffer *buffer, size_t room) {
    if (room <= buffer->room) return;
    buffer->bytes = realloc(buffer->bytes, buffer->room = room);
    check(buffer->bytes ? 0 : -1, "realloc");
}

/* What is written to the end of `out`, whose room it makes. */
static void add(Buffer *out, uint64_t value, int bytes) {
    reserve(out, out->size + 8 > out->room ? 2 * out->room + ROOM : 0);
    put(out->bytes + out->size, value, bytes);
    out->size += (size_t)bytes;
}

static void add_bytes(Buffer *out, const Byte *from, size_t size) {
    reserve(out, out->size + size > out->room ? 2 * out->room + size : 0);
    memcpy(out->bytes + out->size, from, size);
    out->size += size;
}

/* --- logs --- */

static Log *new_log(const Byte *name, size_t size, uint32_t partition) {
    Log *log = calloc(1, sizeof *log);
    char path[4096];
    memcpy(log->name, name, size);
    log->name_size = size;
    log->partition = partition;
    pthread_mutex_init(&log->lock, NULL);
    snprintf(path, sizeof path, "%s/%.*s-%u", directory, (int)size - 2, (char *)name + 2, partition);
    log->file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    check(log->file, path);
    log->next = logs;
    return logs = log;
}

static Log *log_of(const Byte *name, const Byte *behind, uint32_t partition) {
    size_t size = (size_t)(behind - name);
    if (size > NAME) errno = ENAMETOOLONG, check(-1, "a topic");
    pthread_mutex_lock(&logs_lock);
    Log *log = logs;
    while (log && (log->partition != partition || log->name_size != size ||
                   memcmp(log->name, name, size)))
        log = log->next;
    if (!log) log = new_log(name, size, partition);
    pthread_mutex_unlock(&logs_lock);
    return log;
}

static void note_batch(Log *log) {
    if (log->batches == log->room) {
        log->room = 2 * log->room + 1024;
        log->offsets = realloc(log->offsets, log->room * 8);
        log->positions = realloc(log->positions, log->room * 8);
        check(log->offsets && log->positions ? 0 : -1, "realloc");
    }
    log->offsets[log->batches] = log->end_offset;
    log->positions[log->batches++] = log->end_position;
}

static void ask_for_commit(void) {
    pthread_mutex_lock(&commit_lock);
    commit_is_due = 1;
    pthread_cond_signal(&commit_wanted);
    pthread_mutex_unlock(&commit_lock);
}

static uint64_t append(Log *log, Byte *batch, size_t size) {
    uint64_t records = get(batch + COUNT_AT, 4) + 1;
    pthread_mutex_lock(&log->lock);
    uint64_t offset = log->end_offset;
    put(batch, offset, 8);
    check(pwrite(log->file, batch, size, (off_t)log->end_position), "pwrite");
    note_batch(log);
    log->end_offset += records;
    log->end_position += size;
    int is_due = log->unsynced_records < SYNC_RECORDS;
    log->unsynced_records += records;
    is_due = is_due && log->unsynced_records >= SYNC_RECORDS;
    pthread_mutex_unlock(&log->lock);
    if (is_due) ask_for_commit();
    return offset;
}

static void tell_news(void) {
    pthread_mutex_lock(&news_lock);
    appends++;
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&news_lock);
}

/* The last batch that begins at this offset or before it. */
static size_t batch_of(const Log *log, uint64_t offset) {
    size_t low = 0, high = log->batches;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (log->offsets[middle] <= offset) low = middle;
        else high = middle;
    }
    return low;
}

/* Whole batches of at most this many bytes, but one at least. */
static Slice slice(Log *log, uint64_t offset, uint64_t most) {
    Slice found = {.log = log};
    pthread_mutex_lock(&log->lock);
    found.end_offset = log->end_offset;
    found.error = offset > log->end_offset ? OFFSET_OUT_OF_RANGE : 0;
    if (offset < log->end_offset) {
        size_t at = batch_of(log, offset), low = at + 1, high = log->batches;
        found.position = log->positions[at];
        while (low < high) { /* the first behind `at` whose begin is too far away */
            size_t middle = (low + high) / 2;
            if (log->positions[middle] - found.position <= most) low = middle + 1;
            else high = middle;
        }
        int is_all = low == log->batches && log->end_position - found.position <= most;
        size_t end = low - 1 > at ? low - 1 : at + 1;
        uint64_t behind = is_all || end == log->batches ? log->end_position : log->positions[end];
        found.bytes = behind - found.position;
    }
    pthread_mutex_unlock(&log->lock);
    return found;
}

/* A time of the clock that conditions wait by. */
static struct timespec after_ms(uint64_t ms) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    at.tv_sec += (time_t)(ms / 1000) + at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* --- requests --- */

static int send_all(int fd, const Byte *from, size_t size, int flags) {
    while (size) {
        ssize_t sent = send(fd, from, size, MSG_NOSIGNAL | flags);
        if (sent <= 0) return -1;
        from += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static void begin(Connection *on, const Byte *request) {
    on->out.size = 0;
    add(&on->out, 0, 4);
    add_bytes(&on->out, request + 4, 4); /* the correlation id */
}

static int respond(Connection *on) {
    put(on->out.bytes, on->out.size - 4, 4);
    return send_all(on->client, on->out.bytes, on->out.size, 0);
}

uint32_t crc32c(const Byte *data, size_t size);

static int is_damaged(const Byte *batch, size_t size) {
    return size < HEADER || get(batch + CRC_AT, 4) != crc32c(batch + SUMMED_AT, size - SUMMED_AT);
}

static void answer_when_durable(Connection *on) {
    Answer *made = malloc(sizeof *made + on->out.size);
    check(made ? 0 : -1, "malloc");
    put(on->out.bytes, on->out.size - 4, 4);
    *made = (Answer){.on = on, .size = on->out.size};
    memcpy(made->bytes, on->out.bytes, made->size);
    pthread_mutex_lock(&commit_lock);
    on->unanswered++;
    *last_answer = made;
    last_answer = &made->next;
    pthread_cond_signal(&commit_wanted);
    pthread_mutex_unlock(&commit_lock);
}

/* Answers go out in the order of the requests. */
static void wait_for_answers(Connection *on) {
    pthread_mutex_lock(&commit_lock);
    while (on->unanswered) pthread_cond_wait(&answered, &commit_lock);
    pthread_mutex_unlock(&commit_lock);
}

static int produce(Connection *on, const Byte *request, int version) {
    const Byte *at = behind_text(behind_text(request + 8)); /* client id, transactional id */
    Buffer *out = &on->out;
    int acks = (int16_t)get(at, 2);
    uint32_t topics = (uint32_t)get(at + 6, 4);
    begin(on, request);
    add(out, topics, 4);
    for (at += 10; topics--;) {
        const Byte *name = at, *behind = at = behind_text(at);
        uint32_t partitions = (uint32_t)get(at, 4);
        add_bytes(out, name, (size_t)(behind - name));
        add(out, partitions, 4);
        for (at += 4; partitions--;) {
            size_t size = get(at + 4, 4);
            Log *log = log_of(name, behind, (uint32_t)get(at, 4));
            int error = is_damaged(at + 8, size) ? CORRUPT_MESSAGE : 0;
            add_bytes(out, at, 4);
            add(out, (uint64_t)error, 2);
            add(out, error ? UINT64_MAX : append(log, (Byte *)at + 8, size), 8);
            add(out, UINT64_MAX, 8); /* the time is the client's */
            if (version >= 5) add(out, 0, 8); /* the first offset */
            at += 8 + size;
        }
    }
    add(out, 0, 4); /* no throttle */
    tell_news();
    if (acks == ACKS_ALL) return answer_when_durable(on), 0;
    wait_for_answers(on);
    return acks ? respond(on) : 0;
}

/* Fills the slices in the order of the request. Returns their bytes. */
static uint64_t read_slices(Connection *on, const Byte *at, int version, uint64_t most, size_t *count) {
    uint64_t total = 0;
    uint32_t topics = (uint32_t)get(at, 4);
    *count = 0;
    for (at += 4; topics--;) {
        const Byte *name = at, *behind = at = behind_text(at);
        uint32_t partitions = (uint32_t)get(at, 4);
        for (at += 4; partitions--;) {
            Log *log = log_of(name, behind, (uint32_t)get(at, 4));
            at += version >= 9 ? 8 : 4; /* the leader's epoch */
            uint64_t offset = get(at, 8), own;
            at += version >= 5 ? 16 : 8; /* the first offset of a follower */
            own = get(at, 4);
            at += 4;
            if (*count == SLICES) errno = E2BIG, check(-1, "partitions of a Fetch");
            Slice *each = &on->slices[(*count)++];
            *each = slice(log, offset, total && own > most - total ? most - total : own);
            if (total && total + each->bytes > most) each->bytes = 0;
            total += each->bytes;
        }
    }
    return total;
}

static int wait_for_news(uint64_t seen, const struct timespec *deadline) {
    int result = 0;
    pthread_mutex_lock(&news_lock);
    while (appends == seen && !result) result = pthread_cond_timedwait(&news, &news_lock, deadline);
    pthread_mutex_unlock(&news_lock);
    return result;
}

static uint64_t news_seen(void) {
    pthread_mutex_lock(&news_lock);
    uint64_t seen = appends;
    pthread_mutex_unlock(&news_lock);
    return seen;
}

static void add_slice(Buffer *out, const Slice *of, int version) {
    add(out, of->log->partition, 4);
    add(out, (uint64_t)of->error, 2);
    add(out, of->end_offset, 8);
    add(out, of->end_offset, 8); /* the last stable one */
    if (version >= 5) add(out, 0, 8);
    add(out, UINT32_MAX, 4); /* no aborted transactions */
    if (version >= 11) add(out, UINT32_MAX, 4); /* no preferred replica */
    add(out, of->bytes, 4);
}

static void copy_slice(Buffer *out, const Slice *of) {
    reserve(out, out->size + of->bytes);
    check(pread(of->log->file, out->bytes + out->size, of->bytes, (off_t)of->position), "pread");
    out->size += of->bytes;
}

static int send_slice(Connection *on, const Slice *of) {
    off_t position = (off_t)of->position;
    for (uint64_t left = of->bytes; left;) {
        ssize_t sent = sendfile(on->client, of->log->file, &position, left);
        if (sent <= 0) return -1;
        left -= (uint64_t)sent;
    }
    return 0;
}

static int send_slices(Connection *on, const Byte *at, int version, uint64_t total) {
    Buffer *out = &on->out;
    uint32_t topics = (uint32_t)get(at, 4);
    size_t slice_at = 0, sent = 0;
    add(out, 0, 4); /* no throttle */
    if (version >= 7) add(out, 0, 6); /* no error, no session */
    add(out, topics, 4);
    for (at += 4; topics--;) {
        const Byte *name = at;
        at = behind_text(at);
        uint32_t partitions = (uint32_t)get(at, 4);
        add_bytes(out, name, (size_t)(at - name) + 4);
        at += 4 + partitions * (4 + (version >= 9 ? 4 : 0) + 8 + (version >= 5 ? 8 : 0) + 4);
        while (partitions--) {
            Slice *each = &on->slices[slice_at++];
            add_slice(out, each, version);
            if (total <= COPIED) copy_slice(out, each);
            each->behind = out->size;
        }
    }
    put(out->bytes, out->size + (total <= COPIED ? 0 : total) - 4, 4);
    for (size_t each = 0; each < slice_at && total > COPIED; each++) {
        size_t end = on->slices[each].behind;
        if (!on->slices[each].bytes) continue;
        if (send_all(on->client, out->bytes + sent, end - sent, MSG_MORE)) return -1;
        if (send_slice(on, &on->slices[each])) return -1;
        sent = end;
    }
    return send_all(on->client, out->bytes + sent, out->size - sent, 0);
}

static int fetch(Connection *on, const Byte *request, int version) {
    const Byte *at = behind_text(request + 8);
    uint64_t least = get(at + 8, 4), most = get(at + 12, 4), total, seen;
    struct timespec deadline = after_ms(get(at + 4, 4));
    size_t count;
    at += 17 + (version >= 7 ? 8 : 0); /* isolation, session */
    do {
        seen = news_seen();
        total = read_slices(on, at, version, most, &count);
    } while (total < least && count && !wait_for_news(seen, &deadline));
    begin(on, request);
    return send_slices(on, at, version, total);
}

static int list_offsets(Connection *on, const Byte *request, int version) {
    const Byte *at = behind_text(request + 8) + (version >= 2 ? 5 : 4);
    Buffer *out = &on->out;
    uint32_t topics = (uint32_t)get(at, 4);
    begin(on, request);
    if (version >= 2) add(out, 0, 4);
    add(out, topics, 4);
    for (at += 4; topics--;) {
        const Byte *name = at, *behind = at = behind_text(at);
        uint32_t partitions = (uint32_t)get(at, 4);
        add_bytes(out, name, (size_t)(behind - name) + 4);
        for (at += 4; partitions--;) {
            Log *log = log_of(name, behind, (uint32_t)get(at, 4));
            add_bytes(out, at, 4);
            at += version >= 4 ? 8 : 4;
            add(out, 0, 2);
            add(out, UINT64_MAX, 8); /* no time */
            add(out, (int64_t)get(at, 8) == EARLIEST ? 0 : slice(log, UINT64_MAX, 0).end_offset, 8);
            if (version >= 4) add(out, UINT32_MAX, 4); /* no leader's epoch */
            at += 8;
        }
    }
    return respond(on);
}

/* --- all other requests --- */

static void cap(Byte *entry) {
    static const int last[] = {PRODUCE_LAST, FETCH_LAST, LIST_OFFSETS_LAST};
    uint64_t key = get(entry, 2);
    if (key <= LIST_OFFSETS && get(entry + 4, 2) > (uint64_t)last[key])
        put(entry + 4, (uint64_t)last[key], 2);
}

/* The rows of a newer version are compact; an error is told in the oldest one. */
static void cap_versions(Byte *response, int version) {
    int is_compact = version >= 3 && !get(response + 8, 2);
    Byte *at = response + 10;
    uint64_t count = is_compact ? (at[0] & 127) : get(at, 4);
    if (is_compact && at[0] > 127) count |= (uint64_t)*++at << 7;
    at += is_compact ? 1 : 4;
    for (count -= (uint64_t)is_compact; count--; at += is_compact ? 7 : 6) cap(at);
}

static int connect_upstream(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)upstream_port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(fd, "socket");
    check(connect(fd, (struct sockaddr *)&to, sizeof to), "connect to the real broker");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int receive_all(int fd, Byte *to, size_t size) {
    while (size) {
        ssize_t got = recv(fd, to, size, 0);
        if (got <= 0) return -1;
        to += got;
        size -= (size_t)got;
    }
    return 0;
}

static int relay(Connection *on, const Byte *frame, size_t size, int key, int version) {
    if (on->upstream < 0) on->upstream = connect_upstream();
    if (send_all(on->upstream, frame, size, 0)) return -1;
    reserve(&on->out, ROOM);
    if (receive_all(on->upstream, on->out.bytes, 4)) return -1;
    size_t body = get(on->out.bytes, 4);
    reserve(&on->out, body + 4);
    if (receive_all(on->upstream, on->out.bytes + 4, body)) return -1;
    if (key == API_VERSIONS) cap_versions(on->out.bytes, version);
    return send_all(on->client, on->out.bytes, body + 4, 0);
}

static int answer(Connection *on, const Byte *frame, size_t size) {
    const Byte *request = frame + 4;
    int key = (int)get(request, 2), version = (int)get(request + 2, 2);
    if (key == PRODUCE) return produce(on, request, version);
    wait_for_answers(on);
    if (key == FETCH) return fetch(on, request, version);
    if (key == LIST_OFFSETS) return list_offsets(on, request, version);
    return relay(on, frame, size, key, version);
}

static void *serve(void *argument) {
    Connection *on = calloc(1, sizeof *on);
    on->client = (int)(intptr_t)argument;
    on->upstream = -1;
    wake_soon();
    reserve(&on->in, ROOM);
    for (;;) {
        Byte *at = on->in.bytes, *end = at + on->in.size;
        ssize_t got = recv(on->client, end, on->in.room - on->in.size, 0);
        if (got <= 0) break;
        end += got;
        for (size_t size; end - at >= 4 && (size = get(at, 4) + 4) <= (size_t)(end - at); at += size)
            if (answer(on, at, size)) goto over;
        memmove(on->in.bytes, at, on->in.size = (size_t)(end - at));
        if (on->in.size >= 4) reserve(&on->in, get(on->in.bytes, 4) + 4);
    }
over:
    wait_for_answers(on);
    if (on->upstream >= 0) close(on->upstream);
    close(on->client);
    free(on->in.bytes);
    free(on->out.bytes);
    free(on);
    return NULL;
}

/* --- durability --- */

static void sync_logs(void) {
    pthread_mutex_lock(&logs_lock);
    Log *log = logs; /* new ones come before it, and their answers after this */
    pthread_mutex_unlock(&logs_lock);
    for (; log; log = log->next) {
        pthread_mutex_lock(&log->lock);
        uint64_t end = log->end_position;
        log->unsynced_records = 0;
        pthread_mutex_unlock(&log->lock);
        if (end == log->synced_position) continue;
        check(fdatasync(log->file), "fdatasync");
        log->synced_position = end;
    }
}

static Answer *take_answers(void) {
    struct timespec deadline = after_ms(1000 * SYNC_S);
    int result = 0;
    pthread_mutex_lock(&commit_lock);
    while (!first_answer && !commit_is_due && !result)
        result = pthread_cond_timedwait(&commit_wanted, &commit_lock, &deadline);
    Answer *taken = first_answer;
    first_answer = NULL;
    last_answer = &first_answer;
    commit_is_due = 0;
    pthread_mutex_unlock(&commit_lock);
    return taken;
}

static void *commit(void *nothing) {
    wake_soon();
    for (;;) {
        Answer *next, *each = take_answers();
        sync_logs();
        for (; each; each = next) {
            Connection *on = each->on;
            next = each->next;
            send_all(on->client, each->bytes, each->size, 0); /* its own thread sees that it is gone */
            pthread_mutex_lock(&commit_lock);
            if (!--on->unanswered) pthread_cond_broadcast(&answered);
            pthread_mutex_unlock(&commit_lock);
            free(each);
        }
    }
    return nothing;
}

int main(int words, char **word) {
    if (words != 4) return fprintf(stderr, "see the head of floor_broker.c\n"), 2;
    upstream_port = atoi(word[2]);
    directory = word[3];
    signal(SIGPIPE, SIG_IGN); /* sendfile has no flag for it */
    struct rlimit files;
    check(getrlimit(RLIMIT_NOFILE, &files), "getrlimit");
    files.rlim_cur = files.rlim_max;
    check(setrlimit(RLIMIT_NOFILE, &files), "setrlimit");
    pthread_t thread;
    check(-pthread_create(&thread, NULL, commit, NULL), "pthread_create");
    for (;;) {
        int one = 1, fd = accept4(atoi(word[1]), NULL, NULL, SOCK_CLOEXEC);
        check(fd, "accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* as ours within a machine: no pacing */
        check(-pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd), "pthread_create");
        pthread_detach(thread);
    }
}
