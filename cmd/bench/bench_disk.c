/* bench_disk.c: what the disk under each device moves: reads, writes, and the update's mix of both,
 * evenly and in bursts; beside fio on the same file, and how long a flush takes. */
#include "cmd/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROUNDS = 64, FLUSHES = 20 };

struct samples {
    double own[BENCH_PATTERNS][MOST_ROUNDS], fio[BENCH_PATTERNS][MOST_ROUNDS];
    size_t n;
};

/* Every pattern once, ours and fio's. *fio: cleared, with a note, where there is none or it does
 * not run. */
static int round_once(struct samples *s, struct bench_place *p, int *fio, json_t *section,
                      struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < BENCH_PATTERNS && !rc; i++) {
        const struct bench_pattern *pattern = &bench_patterns[i];
        struct err                  why = {0};
        int                         failed;

        rc = bench_place_run(p, pattern, &s->own[i][s->n], err);
        if (rc || !*fio || !pattern->fio)
            continue;
        failed = bench_place_fio(p, pattern, &s->fio[i][s->n], &why);
        *fio = !failed;
        if (failed)
            json_object_set_new(section, "fio",
                                json_string(failed == -ENOENT ? "not installed" : why.text));
    }
    s->n++;
    return rc;
}

static json_t *pattern_row(struct samples *s, size_t i, int fio)
{
    double own = bench_median(s->own[i], s->n),
           theirs = bench_median(s->fio[i], fio && bench_patterns[i].fio ? s->n : 0);
    json_t *row =
        json_pack("{s:s, s:f}", "pattern", bench_patterns[i].name, "bytes_per_second", own);

    if (theirs > 0) {
        json_object_set_new(row, "fio_bytes_per_second", json_real(theirs));
        json_object_set_new(row, "share_of_fio", json_real(own / theirs));
    }
    return row;
}

static int measure(struct bench *b, struct bench_place *p, json_t *section, struct err *err)
{
    struct samples s = {0};
    double         flush[FLUSHES];
    int            fio = 1, rc = 0;
    json_t        *rows = json_array();

    json_object_set_new(section, "path", json_string(bench_place_path(p)));
    json_object_set_new(section, "disk", json_string(bench_place_disk(p)));
    json_object_set_new(section, "patterns", rows);
    for (uint64_t r = 0; r < b->o->rounds && r < MOST_ROUNDS && !rc; r++)
        rc = round_once(&s, p, &fio, section, err);
    for (size_t i = 0; i < FLUSHES && !rc; i++)
        rc = bench_place_flush(p, &flush[i], err);
    for (size_t i = 0; i < BENCH_PATTERNS && !rc; i++)
        json_array_append_new(rows, pattern_row(&s, i, fio));
    if (!rc)
        json_object_set_new(section, "flush_seconds", json_real(bench_median(flush, FLUSHES)));
    return rc;
}

int bench_disk(struct bench *b, struct err *err)
{
    size_t  n = b->n_devices ? b->n_devices : 1;
    json_t *all = json_array();
    int     rc = 0;

    json_object_set_new(b->report, "disk", all);
    for (size_t i = 0; i < n && !rc; i++) {
        struct bench_place *p;
        json_t             *section = json_object();

        json_array_append_new(all, section);
        rc = bench_place_open(&p, b, i, err);
        if (!rc)
            rc = measure(b, p, section, err);
        bench_place_close(p);
    }
    return rc;
}

void bench_disk_print(const json_t *report)
{
    static const struct bench_column columns[] = {{"pattern", "disk", NULL, 0},
                                                  {"bytes_per_second", "MB/s", "%.0f", 1e-6},
                                                  {"fio_bytes_per_second", "fio", "%.0f", 1e-6},
                                                  {"share_of_fio", "share", "%.0f %%", 100},
                                                  {0}};
    const json_t                    *section;
    size_t                           i;

    json_array_foreach(json_object_get(report, "disk"), i, section) {
        const json_t *rows = json_object_get(section, "patterns");
        double        even = bench_number(json_array_get(rows, BENCH_MIXED), "bytes_per_second");
        double        bursts = bench_number(json_array_get(rows, BENCH_BURSTS), "bytes_per_second");

        printf("%sDisk under a device (%s, pieces of 1 MiB, 64 in flight; reads and writes "
               "together)\n",
               i ? "\n" : "", bench_text(section, "disk"));
        bench_table(rows, columns);
        if (*bench_text(section, "fio"))
            printf("  fio: %s\n", bench_text(section, "fio"));
        printf("=> a flush takes %.2f ms; reads and writes in bursts move %.2f times what an even "
               "mix does\n",
               1e3 * bench_number(section, "flush_seconds"), even > 0 ? bursts / even : 0);
    }
}
