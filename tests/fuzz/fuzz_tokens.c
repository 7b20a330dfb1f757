/* fuzz_tokens.c: files of token ids, and what a --data file is taken for. */
#include "tests/fuzz/fuzz.h"

#include "data/text/mixture.h"
#include "data/text/tokens_writer.h"

#include <stdlib.h>
#include <string.h>

enum { IDS = 256 };

/* Written anew, for a vocabulary that ends with the highest of them, it is the same ids. */
static void round_trip(const int32_t *ids, size_t n)
{
    size_t                vocab = 1;
    struct tokens_writer w;
    struct tokens        *t;
    struct err            err;
    int32_t               back[IDS];

    for (size_t i = 0; i < n; i++)
        vocab = (size_t)ids[i] < vocab ? vocab : (size_t)ids[i] + 1;
    FUZZ_CHECK(!tokens_writer_open(&w, fuzz_path("copy"), vocab, &err) &&
               !tokens_writer_add(&w, ids, n, &err));
    FUZZ_CHECK(!tokens_writer_commit(&w, &err) && w.count == n);
    append_close(&w.ids);
    FUZZ_CHECK(!tokens_open(&t, fuzz_path("copy"), 2, &err) && t->count == n);
    FUZZ_CHECK(!tokens_read(t, 0, n, vocab, back, &err) && !memcmp(ids, back, n * sizeof *ids));
    tokens_close(t);
}

static void batches(struct tokens *t)
{
    struct mixture_source two[] = { { t, 0, 1000 }, { t, 0, 3096 } };
    int32_t               x[2 * 7], y[2 * 7];
    struct err            err;

    two[0].rows = two[1].rows = t->count ? (t->count - 1) / 7 : 0;
    for (int how = 0; how < 4; how++)
        for (uint64_t step = 0; step < 3; step++) {
            struct mixture m = { .source = two, .n = 2, .rows = 2 * two[0].rows, .seed = 7,
                                 .weighted = how / 2 && two[0].rows, .shuffled = how % 2 };
            int            rc = mixture_batch(&m, step * 2000006, 2, 7, 300, x, y, &err);

            if (rc)
                fuzz_refused(rc, &err);
        }
}

static void read_all(struct tokens *t)
{
    uint64_t  count = t->count;
    size_t    n = count < IDS ? (size_t)count : IDS, sums = tokens_sums(t);
    int32_t   ids[IDS];
    uint32_t *sum = malloc((sums + 1) * sizeof *sum);
    struct err err;
    int        rc;

    FUZZ_CHECK(sum && !tokens_hash(t, sum, NULL, &err) && !tokens_expect(t, sum, sums, &err));
    rc = tokens_read(t, count - n, n, INT32_MAX, ids, &err);
    if (rc) // only 32 bits go beyond that
        FUZZ_CHECK(t->width == 4 && fuzz_refused(rc, &err) == 0);
    else
        round_trip(ids, n);
    batches(t);
    rc = tokens_read(t, count, 1, 65536, ids, &err);
    fuzz_refused(rc, &err);
    if (sums) {
        sum[0] ^= 1;
        FUZZ_CHECK(!tokens_expect(t, sum, sums, &err));
        rc = n ? tokens_read(t, 0, 1, 65536, ids, &err) : -1;
        FUZZ_CHECK(rc < 0);
    }
    free(sum);
}

static int one(const uint8_t *in, size_t n)
{
    static const char *const names[] = { "data", "data.bin" };
    struct err               err = { 0 };
    unsigned                 width;
    struct tokens           *t;
    int                      taken = 0; // in one of the ways

    for (enum tokens_format as = TOKENS_AUTO; as <= TOKENS_U32; as++) {
        const char *name = names[(n ^ as) & 1];

        fuzz_put(name, in, n);
        int rc = tokens_detect(fuzz_path(name), as, n & 2 ? 50257 : 128256, &width, NULL, &err);
        if (!rc && width && !(rc = tokens_open(&t, fuzz_path(name), width, &err))) {
            read_all(t);
            tokens_close(t);
        }
        if (rc)
            fuzz_refused(rc, &err);
        taken |= !rc;
    }
    return taken;
}

static void seeds(void)
{
    static const char     text[] = "A text, caf\xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80.\n";
    static const uint16_t ids[40] = { 1, 2, 300, 65535, 0xFFFE };
    struct tokens_writer w;
    struct err            err;
    int32_t               some[60];
    uint8_t              *file;
    size_t                n;

    for (int32_t i = 0; i < 60; i++)
        some[i] = i * 4;
    for (size_t vocab = 65536; vocab <= 65537; vocab++) {
        FUZZ_CHECK(!tokens_writer_open(&w, fuzz_path("copy"), vocab, &err) &&
                   !tokens_writer_add(&w, some, 60, &err));
        FUZZ_CHECK(!tokens_writer_commit(&w, &err));
        append_close(&w.ids);
        fuzz_take("copy", &file, &n);
        fuzz_seed(file, n);
        free(file);
    }
    fuzz_seed(text, sizeof text - 1);
    fuzz_seed(ids, sizeof ids);
}

const struct fuzz_target fuzz_tokens = { "tokens", NULL, one, seeds, 4 << 20, 16, 2000 };
