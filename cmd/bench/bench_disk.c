/* bench_disk.c: what the disk under each device moves: reads, writes, and the update's mix of both,
 * evenly and in bursts; beside fio on the same file, and how long a flush takes. */
#include "cmd/bench/bench.h"

#include <stdio.h>

enum { FLUSHES = 20 };

static void pattern_row(json_t *rows, const struct bench_item *own, const struct bench_item *fio)
{
    json_t *row = json_pack("{s:s, s:f}", "pattern", own->name, "bytes_per_second", own->median);

    if (fio->median > 0) {
        bench_put(row, "fio_bytes_per_second", fio->median);
        bench_put(row, "share_of_fio", own->median / fio->median);
    }
    json_array_append_new(rows, row);
}

static int measure(struct bench *b, struct bench_place *p, json_t *section, struct err *err)
{
    struct bench_item items[2 * BENCH_PATTERNS], flush = {.measure = bench_place_flush, .ctx = p};
    json_t           *rows = json_array();
    int               rc;

    bench_say(section, "path", bench_place_path(p));
    bench_say(section, "disk", bench_place_disk(p));
    json_object_set_new(section, "patterns", rows);
    for (int i = 0; i < 2 * BENCH_PATTERNS; i++)
        items[i] = bench_place_item(p, i / 2, i % 2);
    rc = bench_rounds(items, 2 * BENCH_PATTERNS, b->o->rounds, 0, err);
    if (!rc)
        rc = bench_rounds(&flush, 1, FLUSHES, 0, err);
    if (rc)
        return rc;
    for (int i = 0; i < BENCH_PATTERNS; i++)
        pattern_row(rows, &items[2 * i], &items[2 * i + 1]);
    if (*bench_place_no_fio(p))
        bench_say(section, "fio", bench_place_no_fio(p));
    bench_put(section, "flush_seconds", flush.median);
    return 0;
}

static int disk_run(struct bench *b, json_t *rows, struct err *err)
{
    size_t n = b->n_devices ? b->n_devices : 1;
    int    rc = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        struct bench_place *p;
        json_t             *section = json_object();

        json_array_append_new(rows, section);
        rc = bench_place_open(&p, b, i, err);
        if (!rc)
            rc = measure(b, p, section, err);
        bench_place_close(p);
    }
    return rc;
}

static void disk_print(const json_t *rows)
{
    static const struct bench_column columns[] = {{"pattern", "disk", NULL, 0},
                                                  {"bytes_per_second", "MB/s", "%.0f", 1e-6},
                                                  {"fio_bytes_per_second", "fio", "%.0f", 1e-6},
                                                  {"share_of_fio", "share", "%.0f %%", 100},
                                                  {0}};
    const json_t *section;
    size_t        i;

    json_array_foreach(rows, i, section) {
        const json_t *patterns = json_object_get(section, "patterns");
        double even = bench_number(json_array_get(patterns, BENCH_MIXED), "bytes_per_second");
        double bursts = bench_number(json_array_get(patterns, BENCH_BURSTS), "bytes_per_second");

        printf("%sDisk under a device (%s, pieces of 1 MiB, 64 in flight; reads and writes "
               "together)\n",
               i ? "\n" : "", bench_text(section, "disk"));
        bench_table(patterns, columns, NULL);
        if (*bench_text(section, "fio"))
            printf("  fio: %s\n", bench_text(section, "fio"));
        printf("=> a flush takes %.2f ms; reads and writes in bursts move %.2f times what an even "
               "mix does\n",
               1e3 * bench_number(section, "flush_seconds"), even > 0 ? bursts / even : 0);
    }
}

const struct bench_section bench_disk = {"disk", 1, {NULL}, disk_run, disk_print};
