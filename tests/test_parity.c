/* test_parity.c: parity of devices' bytes: whichever one or two of the devices are lost, all their
 * bytes come back. First of chunks in memory, then of a snapshot's files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/round.h"
#include "offload/upkeep/parity_files.h"
#include "offload/upkeep/snapshot.h"
#include "offload/upkeep/snapshot_traffic.h"
#include "offload/upkeep/verify.h"
#include "tests/files.h"
#include "tests/toy_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- where it lies ---- */

static const uint64_t lengths[] = { 0, 1, 4096, 4097, 65 * 4096, 1000003, 40u << 20 };
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* Each stripe has its parity on other devices than its data, each device has room for all its
 * bytes, and no device has much more parity than another. */
static void shape_holds(size_t n, size_t parity, uint64_t bytes)
{
    struct parity_shape s = parity_shape(n, parity, bytes);
    uint64_t            least = UINT64_MAX, most = 0;

    assert_true(s.chunk % PARITY_SECTOR == 0 && s.chunk <= PARITY_CHUNK);
    for (uint64_t i = 0; i < s.stripes; i++) {
        unsigned seen = 0;
        for (size_t d = 0; d < n; d++)
            seen |= 1u << parity_place(&s, i, d);
        assert_int_equal(seen, (1u << n) - 1);
    }
    for (size_t d = 0; d < n; d++) {
        uint64_t before = parity_before(&s, s.stripes, d), counted = 0;

        for (uint64_t i = 0; i < s.stripes; i++)
            counted += parity_place(&s, i, d) < parity;
        assert_int_equal(before, counted);
        assert_true((s.stripes - before) * s.chunk >= bytes);
        assert_int_equal(parity_bytes(&s, d), before * s.chunk);
        least = before < least ? before : least;
        most = before > most ? before : most;
    }
    assert_true(most - least <= 1 + parity);
    double room = (double)bytes * (double)parity / (double)(n - parity);
    assert_true((double)(most * s.chunk) <= room + 2.0 * (double)(parity + 1) * (double)s.chunk);
}

static void test_shape(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 6; n++)
        for (size_t parity = 1; parity <= PARITY_MOST && parity < n; parity++)
            for (size_t i = 0; i < LENGTHS; i++)
                shape_holds(n, parity, lengths[i]);
}

static void test_refused(void **state)
{
    struct err err = { 0 };

    (void)state;
    assert_int_equal(parity_can(1, 1, &err), -EINVAL);
    assert_int_equal(parity_can(2, 2, &err), -EINVAL);
    assert_int_equal(parity_can(PARITY_DEVICES + 1, 1, &err), -EINVAL);
    assert_int_equal(parity_can(2, 1, &err), 0);
    assert_int_equal(parity_can(3, 2, &err), 0);
}

/* ---- chunks ---- */

enum { MOST = 6 };

static void chunks_come_back(const struct parity_shape *s, unsigned char **chunk,
                             unsigned char was[MOST][3 * PARITY_SECTOR], unsigned lost)
{
    unsigned char bad[MOST] = { 0 };
    unsigned      n = 0;

    for (size_t i = 0; i < s->devices; i++) {
        memcpy(chunk[i], was[i], s->chunk);
        if (!(lost >> i & 1))
            continue;
        bad[i] = 1;
        n++;
        memset(chunk[i], 0xa5, s->chunk);
    }
    int rc = parity_decode(s, chunk, bad);
    assert_int_equal(rc, n > s->parity ? -EBADMSG : 0);
    for (size_t i = 0; i < s->devices && !rc; i++)
        assert_memory_equal(chunk[i], was[i], s->chunk);
}

static void test_chunks(void **state)
{
    static unsigned char was[MOST][3 * PARITY_SECTOR], is[MOST][3 * PARITY_SECTOR];
    unsigned char       *chunk[MOST];

    (void)state;
    srand(39);
    for (size_t n = 2; n <= MOST; n++)
        for (size_t parity = 1; parity <= PARITY_MOST && parity < n; parity++) {
            struct parity_shape s = { n, parity, 3 * PARITY_SECTOR, 1 };

            for (size_t i = 0; i < n; i++) {
                chunk[i] = is[i];
                for (size_t k = 0; k < s.chunk; k++)
                    is[i][k] = (unsigned char)rand();
            }
            assert_int_equal(parity_encode(&s, chunk), 0);
            memcpy(was, is, sizeof was);
            for (size_t k = 0; k < s.chunk && parity == 1; k++) { // one parity is the xor
                unsigned char all = 0;
                for (size_t i = 0; i < n; i++)
                    all ^= was[i][k];
                assert_int_equal(all, 0);
            }
            for (unsigned lost = 0; lost < 1u << n; lost++)
                chunks_come_back(&s, chunk, was, lost);
        }
}

/* ---- files of a snapshot ---- */

enum { BLOCKS = 5, PATH = 4096 };
static const size_t sizes[BLOCKS] = { 13003, 7000, 7000, 7000, 77 };

struct made {
    struct toy        t;
    struct run_config to; // the snapshot
    char              dir[PATH], portion[MOST][PATH], parity[MOST][PATH];
    const char       *portions[MOST], *paths[MOST];
    struct parity_files files;
};

static int noted(void *ctx, const char *name, struct err *err)
{
    (void)ctx, (void)name, (void)err;
    return 0;
}

static void say(void *ctx, int damage, const char *sentence)
{
    (void)sentence;
    *(int *)ctx += damage;
}

/* pace: counts what is read, or NULL. */
static void is_whole(struct made *m, struct beside *pace)
{
    int           n = 0;
    struct verify v = { .say = say, .ctx = &n, .beside = pace, .link = LINK_HOST };

    if (pace)
        pace->cls = CLASS_SNAPSHOT;
    must(&m->t, verify_run(&v, &m->to, &m->t.err));
    assert_int_equal(n, 0);
    m->files.damaged = 0;
    if (pace)
        pace->cls = CLASS_PARITY;
    must(&m->t, parity_check(&m->files, &m->t.err));
    assert_int_equal(m->files.damaged, 0);
}

/* Read in pieces, each file is read once, and the checksums of one of them before that. */
static void is_whole_in_pieces(struct made *m)
{
    struct parity_files *f = &m->files;
    struct stat          st;
    uint64_t             from = 0;

    f->damaged = f->read = 0;
    must(&m->t, parity_check_begin(f, &m->t.err));
    for (f->more = 1; f->more; from += 2)
        must(&m->t, parity_check_some(f, from, 2, &m->t.err));
    assert_true(from > 4);
    assert_int_equal(f->damaged, 0);
    for (size_t d = 0; d < f->shape.devices; d++) {
        assert_int_equal(stat(m->parity[d], &st), 0);
        f->read -= (uint64_t)st.st_size;
    }
    assert_int_equal(f->read, round_up(f->shape.stripes * f->shape.devices * 4 + 1, PARITY_SECTOR));
    parity_end(f);
}

static void make(struct made *m, size_t devices, size_t parity, int feedback)
{
    struct run_config cfg = toy_config(NULL, RUN_SUO, sizes, BLOCKS);
    struct toy       *t = &m->t;
    char              db[PATH + 16];
    struct beside     pace = { .cls = CLASS_SNAPSHOT };
    struct link_meter moved = { 0 }, want;

    cfg.wire_dt = DT_BF16;
    cfg.compress = feedback ? 0.1 : 0;
    cfg.error_feedback = feedback;
    cfg.n_devices = devices;
    cfg.csd_mem = 128 << 10;
    toy_make(t, &cfg);
    struct stream *s = toy_open(t);
    for (uint64_t step = 0; step < 3; step++)
        toy_train(t, s, step);
    toy_close(t, s);
    snprintf(m->dir, sizeof m->dir, "%.4000s/copy", t->dir);
    assert_int_equal(mkdir(m->dir, 0700), 0);
    m->to = t->cfg;
    m->to.dir = m->dir;
    m->to.log = NULL;
    m->to.layout = NULL;
    m->to.owner = "0123456789abcdef";
    m->to.device_paths = m->portions;
    for (size_t d = 0; d < devices; d++) {
        snprintf(m->portion[d], PATH, "%.4000s/p%zu", m->dir, d);
        snprintf(m->parity[d], PATH, "%.4000s/q%zu", m->dir, d);
        m->portions[d] = m->portion[d];
        m->paths[d] = m->parity[d];
    }
    struct snapshot_take take = { .run = &t->cfg, .to = &m->to, .log = t->cfg.log, .made = noted,
                                  .beside = &pace };
    must(t, snapshot_take(&take, &t->err));
    snprintf(db, sizeof db, "%.4000s/run.db", m->dir);
    must(t, runlog_copy(t->cfg.log, db, &t->err));
    must(t, runlog_open(&m->to.log, db, 0, 0, &t->err));
    m->files = (struct parity_files){ .snapshot = &m->to, .paths = m->paths, .parity = parity,
                                      .beside = &pace, .step = 3 };
    pace.cls = CLASS_PARITY;
    must(t, parity_make(&m->files, &t->err));
    is_whole(m, &pace);
    m->files.beside = NULL;
    beside_take(&pace, &moved);
    must(t, snapshot_traffic(&want, &t->cfg, parity, 0, &t->err));
    assert_memory_equal(&moved, &want, sizeof want); // to the byte
}

static void unmake(struct made *m)
{
    runlog_close(m->to.log);
    toy_remove(&m->t);
}

static int mend(struct made *m)
{
    m->files.damaged = m->files.mended = 0;
    m->files.first = (struct err){ 0 };
    return parity_mend(&m->files, &m->t.err);
}

enum how { REMOVED, ZEROED, CUT, FLIPPED, HOWS };

static void damage_file(const char *path, enum how how, unsigned seed)
{
    struct stat st;
    FILE       *f;

    assert_int_equal(stat(path, &st), 0);
    if (how == REMOVED)
        assert_int_equal(unlink(path), 0);
    if (how == ZEROED)
        assert_int_equal(truncate(path, 0) || truncate(path, st.st_size), 0);
    if (how == CUT)
        assert_int_equal(truncate(path, st.st_size / 3), 0);
    if (how != FLIPPED)
        return;
    assert_non_null(f = fopen(path, "r+"));
    for (long at = seed % 977; at < st.st_size; at += 3001) {
        fseek(f, at, SEEK_SET);
        int was = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(was ^ 0x40, f);
    }
    fclose(f);
}

/* The drive of device d loses both its files. */
static void damage_drive(struct made *m, size_t d, enum how how)
{
    damage_file(m->portion[d], how, (unsigned)(7 * d + how));
    damage_file(m->parity[d], how, (unsigned)(7 * d + how));
}

static void test_files(void **state)
{
    static const struct { size_t devices, parity; int feedback; } runs[] = {
        { 2, 1, 0 }, { 3, 1, 1 }, { 3, 2, 1 }, { 5, 1, 0 }, { 5, 2, 0 }, { 6, 2, 1 },
    };
    static struct made m;

    (void)state;
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        size_t n = runs[r].devices;

        make(&m, n, runs[r].parity, runs[r].feedback);
        is_whole(&m, NULL);
        is_whole_in_pieces(&m);
        assert_int_equal(mend(&m), 0);
        assert_int_equal(m.files.damaged, 0);
        for (size_t a = 0; a < n; a++)
            for (size_t b = a; b < n && (b == a || runs[r].parity > 1); b++) {
                enum how how = (enum how)((a + 2 * b) % HOWS);

                damage_drive(&m, a, how);
                if (b != a)
                    damage_drive(&m, b, (how + 1) % HOWS);
                assert_int_equal(mend(&m), 0);
                assert_true(m.files.damaged > 0 && m.files.mended > 0);
                is_whole(&m, NULL);
            }
        unmake(&m);
    }
}

/* One more than the parity bears: refused, and nothing is made. Then its place is what it was. */
static void test_too_many(void **state)
{
    static struct made m;

    (void)state;
    make(&m, 3, 1, 0);
    for (size_t d = 0; d < 2; d++)
        damage_drive(&m, d, REMOVED);
    assert_int_equal(mend(&m), -EBADMSG);
    assert_non_null(strstr(m.t.err.text, "devices 0, 1"));
    assert_int_equal(access(m.portion[0], F_OK), -1);
    unmake(&m);
    make(&m, 3, 1, 0);
    damage_drive(&m, 0, ZEROED);
    damage_drive(&m, 2, ZEROED);
    assert_int_equal(mend(&m), -EBADMSG);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape), cmocka_unit_test(test_refused), cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_files), cmocka_unit_test(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
