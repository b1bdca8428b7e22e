#include <stdlib.h>
#include <string.h>

#include "array.h"

static int64_t rpm = 7200, mb_s = 150;

void array_defaults(Array *array, int64_t megabytes) {
    *array = (Array){.level = -1, .members = 1, .rows_max = 256, .size = megabytes << 20, .chunk = 512 << 10,
                     .gather_ns = 1000000};
    array->shape = (Shape){.seek_min_ns = 800000, .seek_max_ns = 14100000, .flush_ns = 8000000,
                           .cache_bytes = 64 << 20, .ahead_bytes = 2 << 20, .queue_max = 32, .cached_max = 256};
}

bool array_set(Array *array, const char *word) {
    Shape *shape = &array->shape;
    const struct { const char *name; int64_t *value, unit; } SETTINGS[] = {
        {"level=", &array->level, 1}, {"members=", &array->members, 1}, {"stripe_cache=", &array->rows_max, 1},
        {"chunk_kib=", &array->chunk, 1024}, {"gather_us=", &array->gather_ns, 1000}, {"rpm=", &rpm, 1},
        {"mb_s=", &mb_s, 1}, {"seek_min_us=", &shape->seek_min_ns, 1000}, {"queue=", &shape->queue_max, 1},
        {"seek_max_us=", &shape->seek_max_ns, 1000}, {"flush_us=", &shape->flush_ns, 1000},
        {"cache_mib=", &shape->cache_bytes, 1 << 20}, {"ahead_kib=", &shape->ahead_bytes, 1024},
        {"cached=", &shape->cached_max, 1},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) {
        size_t size = strlen(SETTINGS[i].name);
        if (!strncmp(word, SETTINGS[i].name, size)) return *SETTINGS[i].value = atoll(word + size) * SETTINGS[i].unit, true;
    }
    return false;
}

int array_data_members(const Array *array) {
    return (int)(array->level == 5 ? array->members - 1 : array->level == 10 ? array->members / 2
                 : array->level == 1 || array->level < 0 ? 1 : array->members);
}

static const char *wrong(const Array *array) {
    if (array->level != -1 && array->level != 0 && array->level != 1 && array->level != 5 && array->level != 10)
        return "level is 0, 1, 5, 10, or -1 for a single disk";
    if (array->members < (array->level == 5 ? 3 : array->level == 10 ? 2 : 1) || array->members > MEMBERS_MAX)
        return "members: up to 16, RAID-5 from 3, RAID-10 from 2";
    if (array->level < 0 && array->members > 1) return "several members need a level";
    return array->chunk % PAGE || array->chunk > PAGES_MAX * PAGE ? "a chunk has whole pages, up to 512 KiB" : NULL;
}

const char *array_init(Array *array) {
    const char *found = wrong(array);
    if (found) return found;
    int64_t line = array->chunk * array_data_members(array);
    array->size = array->size / line * line;
    array->shape.size = array->size / array_data_members(array);
    array->shape.turn_ns = 60000000000 / rpm;
    array->shape.bytes_a_ns = (double)mb_s / 1000;
    for (int i = 0; i < array->members; i++) platter_init(&array->disks[i], &array->shape);
    return NULL;
}
