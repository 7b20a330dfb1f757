/* test_stream_frozen.c: frozen embeddings, layers and final norm, and a trained adapter for each
 * layer (tests/routes.h), in all modes against the one in memory, bit for bit. The bytes that
 * such a run stores and moves are compared with numbers. Damaged parameters are found, and a run is
 * moved to other devices. */
#include "tests/tempdir.h"
#include "tests/routes.h"
#include "tests/variant.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/upkeep/reshard.h"
#include "offload/upkeep/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEEP = 3, ALL = 2 * DEEP + 2, EMBED = 9011, LAYER = 7000, NORM = 77, ADAPTER = 3000,
       FROZEN = EMBED + 3 * LAYER + NORM, TRAINED = 3 * ADAPTER - 1 };
static const size_t sizes_of[ALL] = { EMBED, LAYER, LAYER, LAYER, ADAPTER, ADAPTER, ADAPTER - 1,
                                      NORM };

/* How a run goes on between its steps: through, stopped and opened again, with evaluations. */
enum interruption { THROUGH, STOPPED, EVALUATED };

/* A row of what is compared. */
struct how {
    enum run_mode     mode;
    size_t            devices, frames;
    int               speculate, in_ram;
    enum run_spares   spares;
};

/* What all modes are compared in. */
struct kind { const char *name; enum dtype wire; double compress; int feedback, poison; };

static struct run_config config(const struct how *h, const struct kind *k)
{
    struct run_config cfg = toy_config(NULL, h->mode, sizes_of, ALL);

    cfg.route = route_adapters(DEEP);
    cfg.wire_dt = k->wire;
    cfg.csd_mem *= k->wire == DT_F32 ? 2 : 1;
    cfg.compress = k->compress;
    cfg.error_feedback = k->feedback;
    cfg.residual_in_ram = k->feedback && h->in_ram;
    cfg.n_devices = h->devices;
    cfg.frames = h->frames;
    cfg.speculate = h->speculate;
    cfg.spares = h->spares;
    cfg.commit_every = 1;
    cfg.durable = 1;
    return cfg;
}


/* The frozen parameters are what the run began with, rounded to its wire. */
static void frozen_same(struct toy *t)
{
    struct run_reader   *r;
    struct params_source src;
    float               *got = malloc(FROZEN * sizeof *got), *want = malloc(FROZEN * sizeof *want);
    char                *wire = malloc(FROZEN * sizeof *got);

    must(t, run_reader(&r, &src, &t->cfg, &t->err));
    for (size_t b = 0; b < ALL; b++) {
        if (run_trains(&t->cfg, b))
            continue;
        must(t, src.read(src.ctx, b, 0, sizes_of[b], got, &t->err));
        must(t, toy_init.read(NULL, b, 0, sizes_of[b], want, &t->err));
        convert(wire, t->cfg.wire_dt, want, DT_F32, sizes_of[b]);
        convert(want, DT_F32, wire, t->cfg.wire_dt, sizes_of[b]);
        assert_memory_equal(got, want, sizes_of[b] * sizeof *got);
    }
    run_reader_close(r);
    free(got);
    free(want);
    free(wire);
}

static int text_row(void *ctx, int n, const char **v, const char **names)
{
    (void)n, (void)names;
    snprintf(ctx, 128, "%s", v[0] ? v[0] : "");
    return 0;
}

static void says(struct toy *t, const char *sql, const char *want)
{
    char got[128] = "none";

    must(t, runlog_query(t->cfg.log, sql, text_row, got, &t->err));
    assert_string_equal(got, want);
}

/* The journal's rows of frozen subgroups are those that were made: no update, and no gradient. */
static void rows_same(struct toy *t)
{
    struct store st;
    char         sql[160];

    must(t, store_init(&st, &t->cfg, &t->err));
    for (size_t i = 0; i < st.n_subs; i++) {
        snprintf(sql, sizeof sql, "SELECT version || ' ' || (states_crc = 0) || ' ' || (crc = 0) "
                 "FROM journal_subs JOIN journal_grads USING (sub) WHERE sub = %zu", i);
        if (!st.subs[i].trains)
            says(t, sql, "0 1 1");
    }
    store_release(&st);
    says(t, "SELECT user_version FROM pragma_user_version", "7");
}

/* The masters that a training lends are those that are read behind it: CRC32C over all. */
static uint32_t lent_sum(struct toy *t, struct stream *s)
{
    struct params_source src;
    float               *p = malloc(FROZEN * sizeof *p);
    uint32_t             sum = 0;

    must(t, stream_masters(s, STEPS, &src, &t->err));
    for (size_t b = 0; b < ALL; b++) {
        must(t, src.read(src.ctx, b, 0, sizes_of[b], p, &t->err));
        sum = crc32c(sum, p, sizes_of[b] * sizeof *p);
    }
    must(t, stream_masters_end(s, &t->err));
    free(p);
    return sum;
}

static struct trained trained_by(const struct run_config *cfg, int poison, enum interruption how)
{
    struct trained out = { 0 };
    struct toy     t;
    uint32_t       lent = 0;

    toy_make(&t, cfg);
    for (uint64_t step = 0, stops = 0, applied; step < STEPS;) {
        struct stream *s = toy_open(&t);

        must(&t, run_position(&t.cfg, &step, &applied, &t.err));
        for (uint64_t end = how == STOPPED && stops++ < 2 ? size_min(step + 2, STEPS) : STEPS;
             step < end; step++) {
            must(&t, toy_order_step(&t.cfg, s, step, poison && step == 3, &out.loss[step], &t.err));
            if (how == EVALUATED) {
                double loss;

                must(&t, toy_pass(&t.cfg, s, STREAM_EVAL, step + 1, 0, &loss, NULL, &t.err));
            }
        }
        if (step == STEPS) {
            must(&t, stream_drain(s, &t.err));
            lent = lent_sum(&t, s);
        }
        stream_close(s); // some of its steps may have to be made again
        must(&t, run_position(&t.cfg, &step, &applied, &t.err));
    }
    out.params = toy_sum(&t);
    assert_int_equal(lent, out.params);
    frozen_same(&t);
    if (cfg->mode != RUN_MEM)
        rows_same(&t);
    for (uint64_t step = 1; cfg->mode != RUN_MEM && !poison && how != STOPPED && step < STEPS;
         step++)
        variant_traffic(&t, step);
    toy_remove(&t);
    return out;
}

static void modes(void **state)
{
    static const struct kind kinds[] = {
        { "bf16", DT_BF16, 0, 0, 0 }, { "fp32", DT_F32, 0, 0, 0 },
        { "compressed", DT_BF16, 0.1, 0, 0 }, { "with error feedback", DT_BF16, 0.1, 1, 0 },
        { "a step is skipped", DT_BF16, 0.1, 1, 1 },
    };
    static const struct how rows[] = {
        { RUN_BASE, 3, 1, 1, 0, RUN_SPARES_ALL }, { RUN_SU, 1, 2, 0, 1, RUN_SPARES_FEW },
        { RUN_SUO, 3, 2, 0, 0, RUN_SPARES_HALF }, { RUN_SUO, 1, 3, 1, 1, RUN_SPARES_FEW },
    };

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct how        memory = { RUN_MEM, 1, 2, 0, 0, RUN_SPARES_HALF };
        struct run_config mem = config(&memory, &kinds[k]);
        struct trained    want = trained_by(&mem, kinds[k].poison, THROUGH), again;

        again = trained_by(&mem, kinds[k].poison, STOPPED);
        assert_memory_equal(&again, &want, sizeof want);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (enum interruption how = THROUGH; how <= EVALUATED; how++) {
                if (k && how != (enum interruption)((k + i) % 3)) // of each kind some
                    continue;
                struct run_config cfg = config(&rows[i], &kinds[k]);

                print_message("%s, row %zu, interruption %d\n", kinds[k].name, i, (int)how);
                struct trained got = trained_by(&cfg, kinds[k].poison, how);
                assert_memory_equal(got.loss, want.loss, sizeof got.loss);
                assert_int_equal(got.params, want.params);
            }
    }
}

/* ---- bytes */

static size_t padded(size_t n) { return round_up(n, CSD_ALIGN_PARAMS); }

static const struct kind plain = { "bf16", DT_BF16, 0, 0, 0 };

/* One device: a slot of 2 bytes a parameter for each subgroup that is frozen, of 2,048 parameters
 * each; for each trained one 14 in each of its slots, of which there are spare ones, and 4 of its
 * gradient. A step reads the base, and writes nothing of it. */
static void bytes(void **state)
{
    struct how        h = { RUN_SUO, 1, 1, 0, 0, RUN_SPARES_HALF };
    struct toy        t;
    struct stat       file;
    struct run_memory memory;
    char              path[4096];
    size_t            frozen = 0, trained = 0, spare;

    (void)state;
    struct run_config cfg = config(&h, &plain);
    for (size_t b = 0; b < ALL; b++)
        *(run_trains(&cfg, b) ? &trained : &frozen) += padded(sizes_of[b]) / CSD_ALIGN_PARAMS;
    assert_true(frozen == 5 + 3 * 4 + 1 && trained == 3 * 2);
    spare = size_max(div_up(trained, 2), STORE_MIN_SPARES);
    uint64_t want = SUPERBLOCK_BYTES + CSD_ALIGN_PARAMS * (2 * frozen + 14 * (trained + spare) +
                                                          4 * trained);
    toy_make(&t, &cfg);
    snprintf(path, sizeof path, "%s/dev0/states", t.dir);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_size, want);
    must(&t, run_memory(&t.cfg, &memory, &t.err));
    assert_int_equal(memory.device_bytes, want);
    assert_true(memory.layer_grad == 0);

    struct stream *s = toy_open(&t);
    double         loss;
    for (uint64_t step = 0; step < 3; step++)
        must(&t, toy_order_step(&t.cfg, s, step, 0, &loss, &t.err));
    toy_close(&t, s);
    struct link_meter m = variant_traffic(&t, 1), own = { 0 };
    // one frame for layers, two for adapters: some are read again
    own.bytes[LINK_HOST][CLASS_WIRE][LINK_READ] = 2 * (FROZEN + 2 * LAYER + TRAINED + ADAPTER);
    own.bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE] = 4 * TRAINED;
    own.bytes[LINK_INTERNAL][CLASS_GRADIENT][LINK_READ] = 4 * TRAINED;
    own.bytes[LINK_INTERNAL][CLASS_STATES][LINK_READ] = 12 * TRAINED;
    own.bytes[LINK_INTERNAL][CLASS_STATES][LINK_WRITE] = 12 * TRAINED;
    own.bytes[LINK_INTERNAL][CLASS_WIRE][LINK_WRITE] = 2 * TRAINED;
    assert_memory_equal(m.bytes, own.bytes, sizeof own.bytes);
    toy_remove(&t);
}

/* In memory: images of what trains, and the base once. */
static void images(void **state)
{
    struct how        h = { RUN_MEM, 1, 2, 0, 0, RUN_SPARES_HALF };
    struct run_config cfg = config(&h, &plain);
    struct run_memory memory;
    struct stat       before, file;
    struct toy        t;
    char              base[4096], image[4096];
    double            loss;

    (void)state;
    toy_make(&t, &cfg);
    snprintf(base, sizeof base, "%s/frozen", t.dir);
    snprintf(image, sizeof image, "%s/image1", t.dir);
    assert_int_equal(stat(base, &before), 0);
    assert_int_equal(before.st_size, 2 * FROZEN);
    struct stream *s = toy_open(&t);
    for (uint64_t step = 0; step < 3; step++)
        must(&t, toy_order_step(&t.cfg, s, step, 0, &loss, &t.err));
    toy_close(&t, s);
    assert_int_equal(stat(image, &file), 0);
    assert_int_equal(file.st_size, 12 * TRAINED);
    assert_int_equal(stat(base, &file), 0);
    assert_true(file.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                file.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    must(&t, run_memory(&t.cfg, &memory, &t.err));
    assert_int_equal(memory.device_bytes, 2 * 12 * TRAINED + 2 * FROZEN);
    assert_true(memory.states < 12 * TRAINED + 4 * TRAINED + 2 * TRAINED + // with gradient and wire
                                    2 * (EMBED + NORM) + ALL * 4 * 64);      // embeddings and norm
    says(&t, "SELECT group_concat(area || ':' || n, ' ') FROM (SELECT area, count(*) AS n FROM "
             "journal_image GROUP BY area ORDER BY area)", "0:3 1:3 2:5");
    says(&t, "SELECT user_version FROM pragma_user_version", "7");
    toy_remove(&t);
}

/* ---- damage */

static void flip(const char *path, uint64_t at)
{
    unsigned char byte;
    int           fd = open(path, O_RDWR);

    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static void hear(void *ctx, int damage, const char *sentence)
{
    if (damage)
        snprintf(ctx, 1024, "%s", sentence);
}

static struct verify look(struct toy *t, int mend, char heard[1024])
{
    struct verify v = { .mend = mend, .say = hear, .ctx = heard };

    *heard = 0;
    must(t, verify_run(&v, &t->cfg, &t->err));
    return v;
}

/* A flipped byte of layer 2 is found by check, which cannot mend it, and by training. With the byte
 * turned back nothing is wrong. */
static void damaged(struct toy *t, const char *path, uint64_t at)
{
    char           heard[1024];
    double         loss;
    char           notice[512];
    struct stream *s = NULL;
    struct verify  v = look(t, 0, heard);

    assert_true(!*heard && v.count[VERIFY_FROZEN].damaged == 0);
    assert_true(v.count[VERIFY_FROZEN].bytes >= 2 * FROZEN && v.count[VERIFY_FROZEN].n > 0);
    flip(path, at);
    for (int mend = 0; mend < 2; mend++) {
        v = look(t, mend, heard);
        assert_true(v.count[VERIFY_FROZEN].damaged == 1 && v.count[VERIFY_FROZEN].mended == 0);
        if (!strstr(heard, "block 2") || !strstr(heard, path))
            fail_msg("%s", heard);
    }
    int rc = run_train(&s, &t->cfg, notice, sizeof notice, &t->err);
    rc = rc ? rc : toy_order_step(&t->cfg, s, 0, 0, &loss, &t->err);
    assert_int_equal(rc, -EBADMSG);
    assert_true(strstr(t->err.text, "block 2") && strstr(t->err.text, path));
    stream_close(s);
    flip(path, at);
    look(t, 0, heard);
    assert_string_equal(heard, "");
}

static void damage(void **state)
{
    struct how   rows[] = { { RUN_MEM, 1, 2, 0, 0, RUN_SPARES_HALF },
                            { RUN_SUO, 1, 2, 0, 0, RUN_SPARES_HALF } };
    struct store st;
    struct toy   t;
    char         path[4096];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct run_config cfg = config(&rows[i], &plain);

        toy_make(&t, &cfg);
        must(&t, store_init(&st, &cfg, &t.err));
        const struct store_sub *u = &st.subs[st.block_sub[2]];
        snprintf(path, sizeof path, "%s/%s", t.dir, i ? "dev0/states" : "frozen");
        damaged(&t, path, i ? store_slot_off(&st, u->class_, u->first_slot) + 99
                            : 2 * (EMBED + LAYER) + 99);
        store_release(&st);
        toy_remove(&t);
    }
}

/* A base that is not finite is found. */
static int broken_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = block == 2 && first + i == 3333 ? NAN : 0.5f;
    return 0;
}

static void not_finite(void **state)
{
    const struct params_source broken = { .read = broken_read };

    (void)state;
    for (enum run_mode mode = RUN_MEM; mode <= RUN_SUO; mode += RUN_SUO) {
        struct how        h = { mode, 1, 2, 0, 0, RUN_SPARES_HALF };
        struct run_config cfg = config(&h, &plain);
        struct toy        t;
        char              path[4096], heard[1024];

        toy_make(&t, &cfg);
        runlog_close(t.cfg.log);
        tempdir_remove(t.dir);
        t.dir = tempdir_new();
        t.cfg.dir = t.dir;
        snprintf(path, sizeof path, "%s/run.db", t.dir);
        must(&t, runlog_create(&t.cfg.log, path, 0, &t.err));
        must(&t, run_format(&t.cfg, &broken, &t.err));
        struct verify v = look(&t, 0, heard);
        assert_true(v.beyond.n == 1 && v.beyond.block == 2 && v.beyond.first == 3333);
        toy_remove(&t);
    }
}

/* ---- elsewhere */

static int settings(void *ctx, struct err *err)
{
    return runlog_set(((struct toy *)ctx)->cfg.log, "layout", "bb", err);
}

/* Moved between two steps to three devices that cut it otherwise. */
static void moved(void **state)
{
    const struct kind kind = { "fp32, error feedback", DT_F32, 0.1, 1, 0 };
    struct how        h = { RUN_SUO, 1, 2, 0, 0, RUN_SPARES_HALF };
    struct run_config cfg = config(&h, &kind);
    struct trained    want = trained_by(&cfg, 0, THROUGH);
    char              notice[512] = "";
    double            loss;
    struct toy        t;

    (void)state;
    toy_make(&t, &cfg);
    for (uint64_t step = 0; step < STEPS;) {
        struct stream *s = toy_open(&t);

        for (uint64_t end = step + STEPS / 2; step < end; step++) {
            must(&t, toy_order_step(&t.cfg, s, step, 0, &loss, &t.err));
            assert_true(loss == want.loss[step]);
        }
        toy_close(&t, s);
        if (step == STEPS)
            break;
        struct reshard r = { .from = t.cfg, .to = t.cfg, .settings = settings, .ctx = &t };

        r.to.n_devices = 3;
        r.to.csd_mem *= 3;
        r.to.layout = "bb";
        must(&t, reshard_run(&r, &t.err));
        t.cfg = r.to;
        must(&t, reshard_clean(&t.cfg, 1, notice, sizeof notice, &t.err));
        frozen_same(&t);
        rows_same(&t);
    }
    assert_int_equal(toy_sum(&t), want.params);
    toy_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes),  cmocka_unit_test(bytes),      cmocka_unit_test(images),
        cmocka_unit_test(damage), cmocka_unit_test(not_finite), cmocka_unit_test(moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
