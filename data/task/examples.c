/* examples.c: the file of tokenised examples.
 *
 *     header | ids of row 0, row 1, ... | record 0, record 1, ...
 *
 * The records stand at the end because the writer learns their number last; it keeps them in a
 * second temporary file until then. The header's sum runs over all records and each record's over
 * its ids, so the header's own CRC stands for the whole file. Opening reads the header only and
 * holds it against the file's size; nothing is allocated by what a file says. */
#include "data/task/examples.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"

#include <assert.h>
#include <math.h>

enum { PLAIN = 1, TYPED, MARKED }; // versions

static const char examples_magic[8] = "siTrainE";

/* As on disk. */
struct examples_record {
    uint64_t first;  // index of its first id among all
    uint32_t n;
    int32_t  label;
    float    value;
    uint32_t crc;    // of the row's number, the record up to here, and the ids
};

_Static_assert(sizeof(struct examples_header) == 48 && sizeof(struct examples_record) == 24,
               "no padding on disk");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little-endian");

static uint32_t header_crc(const struct examples_header *h)
{
    return crc32c(0, h, offsetof(struct examples_header, crc));
}

static uint32_t record_crc(const struct examples_record *r, uint64_t row, const int32_t *ids)
{
    uint32_t crc = crc32c(0, &row, sizeof row);

    crc = crc32c(crc, r, offsetof(struct examples_record, crc));
    return crc32c(crc, ids, r->n * sizeof *ids);
}

/* ---- reading ---- */

/* Checks that a header is possible and agrees with the file's size, because all offsets follow from
 * it. */
static int header_check(const struct examples_header *h, uint64_t size, const char *path,
                        struct err *err)
{
    uint64_t body = size - sizeof *h;

    if (memcmp(h->magic, examples_magic, sizeof h->magic) != 0)
        return err_set(err, -EINVAL, "%s is no file of examples: it does not begin with siTrainE",
                       path);
    if (h->version < PLAIN || h->version > MARKED)
        return err_set(err, -EINVAL, "%s is a file of examples of version %" PRIu32 ", but only "
                       "versions %d to %d are known", path, h->version, PLAIN, MARKED);
    if (h->crc != header_crc(h))
        return err_set(err, -EINVAL, "%s: its header is damaged (its checksum is %08" PRIx32
                       ", recorded is %08" PRIx32 ")", path, header_crc(h), h->crc);
    if (h->rows == 0 || h->rows > body / sizeof(struct examples_record) ||
        h->ids > body / sizeof(int32_t) ||
        h->rows * sizeof(struct examples_record) + h->ids * sizeof(int32_t) != body)
        return err_set(err, -EINVAL, "%s has %" PRIu64 " bytes, which does not fit its header's "
                       "%" PRIu64 " rows and %" PRIu64 " ids", path, size, h->rows, h->ids);
    if (h->longest == 0 || h->longest > h->ids || h->max_id < 0 || h->max_label < -1)
        return err_set(err, -EINVAL, "%s: its header's bounds (longest row %" PRIu32 ", largest id "
                       "%" PRId32 ", largest label %" PRId32 ") are impossible", path, h->longest,
                       h->max_id, h->max_label);
    return 0;
}

int examples_open(struct examples **out, const char *path, struct err *err)
{
    struct examples *e = calloc(1, sizeof *e);
    uint64_t         size;

    *out = NULL;
    if (e)
        *e = (struct examples){ .fd = -1, .path = strdup(path) };
    int rc = e && e->path ? file_open_read(path, &e->fd, &size, err)
                          : err_set(err, -ENOMEM, "no memory to open %s", path);

    if (!rc && size < sizeof e->h)
        rc = err_set(err, -EINVAL, "%s has %" PRIu64 " bytes, less than the %zu of a header of "
                     "examples", path, size, sizeof e->h);
    rc = rc ? rc : file_pread(e->fd, &e->h, sizeof e->h, 0, path, err);
    rc = rc ? rc : header_check(&e->h, size, path, err);
    if (rc)
        examples_close(e);
    else
        *out = e;
    return rc;
}

void examples_close(struct examples *e)
{
    if (!e)
        return;
    file_close(e->fd);
    free(e->path);
    free(e);
}

static int examples_damaged(const struct examples *e, uint64_t i, const char *what, struct err *err)
{
    return err_set(err, -EINVAL, "%s: row %" PRIu64 " is damaged: %s", e->path, i, what);
}

static int record_check(const struct examples *e, uint64_t i, const struct examples_record *r,
                        struct err *err)
{
    if (r->n == 0 || r->n > e->h.longest)
        return examples_damaged(e, i, "its length is not one that the header allows", err);
    if (r->first > e->h.ids || r->n > e->h.ids - r->first)
        return examples_damaged(e, i, "its ids would stand outside the file", err);
    if (r->label < -1 || r->label > e->h.max_label || !isfinite(r->value))
        return examples_damaged(e, i, "its label is not one that the header allows", err);
    return 0;
}

int examples_read(const struct examples *e, uint64_t i, int32_t *ids, size_t most, size_t *n,
                  struct example *out, struct err *err)
{
    struct examples_record r;

    assert(i < e->h.rows);
    int rc = file_pread(e->fd, &r, sizeof r, sizeof e->h + e->h.ids * sizeof *ids + i * sizeof r,
                        e->path, err);
    rc = rc ? rc : record_check(e, i, &r, err);
    if (rc)
        return rc;
    if (r.n > most)
        return err_set(err, -EOVERFLOW, "%s: row %" PRIu64 " has %" PRIu32 " ids, but there is "
                       "room for %zu", e->path, i, r.n, most);
    rc = file_pread(e->fd, ids, r.n * sizeof *ids, sizeof e->h + r.first * sizeof *ids, e->path,
                    err);
    if (rc)
        return rc;
    if (r.crc != record_crc(&r, i, ids))
        return examples_damaged(e, i, "its checksum does not fit", err);
    for (uint32_t k = 0; k < r.n; k++)
        if (examples_id(ids[k]) > e->h.max_id ||
            (examples_type(ids[k]) && e->h.version == PLAIN))
            return examples_damaged(e, i, "it holds an id that the header does not allow", err);
    *n = r.n;
    *out = (struct example){ .label = r.label, .value = r.value };
    return 0;
}

int examples_marked(const struct examples *e) { return e->h.version == MARKED; }

enum { READ_RECORDS = 1024 };

int examples_lengths(const struct examples *e, uint32_t *n, struct err *err)
{
    struct examples_record *r = malloc(READ_RECORDS * sizeof *r);
    uint32_t                sum = 0;
    int                     rc = r ? 0 : err_set(err, -ENOMEM, "no memory to read %s", e->path);

    for (uint64_t i = 0, some; i < e->h.rows && !rc; i += some) {
        some = e->h.rows - i < READ_RECORDS ? e->h.rows - i : READ_RECORDS;
        rc = file_pread(e->fd, r, some * sizeof *r,
                        sizeof e->h + e->h.ids * sizeof(int32_t) + i * sizeof *r, e->path, err);
        sum = rc ? sum : crc32c(sum, r, some * sizeof *r);
        for (uint64_t k = 0; k < some && !rc; k++) {
            rc = record_check(e, i + k, &r[k], err);
            n[i + k] = r[k].n;
        }
    }
    free(r);
    if (!rc && sum != e->h.sum)
        rc = err_set(err, -EINVAL, "%s: its table of rows is damaged (checksum differs)", e->path);
    return rc;
}

/* ---- writing ---- */

int examples_new_open(struct examples_new *w, const char *path, struct err *err)
{
    *w = (struct examples_new){ .h = { .version = PLAIN, .max_label = -1 } };
    memcpy(w->h.magic, examples_magic, sizeof w->h.magic);
    int rc = append_open(&w->ids, path, sizeof w->h, err);

    rc = rc ? rc : append_open(&w->records, path, 0, err);
    if (rc)
        examples_new_abort(w);
    return rc;
}

void examples_new_marks(struct examples_new *w)
{
    assert(w->h.rows == 0);
    w->h.version = MARKED;
}

int examples_new_add(struct examples_new *w, const int32_t *ids, size_t n, const struct example *x,
                     struct err *err)
{
    struct examples_record r = {
        .first = w->h.ids, .n = (uint32_t)n, .label = x->label, .value = x->value
    };

    assert(x->label >= -1 && isfinite(x->value));
    if (n == 0 || n > UINT32_MAX)
        return err_set(err, -EINVAL, "row %" PRIu64 " for %s has %zu ids: from 1 to %" PRIu32
                       " are possible", w->h.rows, w->ids.f.path, n, UINT32_MAX);
    for (size_t k = 0; k < n; k++) {
        int32_t id = examples_id(ids[k]);

        w->h.max_id = id > w->h.max_id ? id : w->h.max_id;
        if (examples_type(ids[k]) && w->h.version == PLAIN)
            w->h.version = TYPED;
    }
    r.crc = record_crc(&r, w->h.rows, ids);
    w->h.sum = crc32c(w->h.sum, &r, sizeof r);
    w->h.rows++;
    w->h.ids += n;
    w->h.longest = r.n > w->h.longest ? r.n : w->h.longest;
    w->h.max_label = x->label > w->h.max_label ? x->label : w->h.max_label;
    int rc = append_add(&w->ids, ids, n * sizeof *ids, err);

    return rc ? rc : append_add(&w->records, &r, sizeof r, err);
}

/* Copies the records behind the ids, piece by piece, through the records' free buffer. */
static int examples_new_join(struct examples_new *w, struct err *err)
{
    int rc = append_flush(&w->ids, err);

    rc = rc ? rc : append_flush(&w->records, err);
    for (uint64_t done = 0, n; !rc && done < w->records.off; done += n) {
        n = size_min(w->records.off - done, APPEND_BYTES);
        rc = file_pread(w->records.f.fd, w->records.buf, n, done, w->records.f.temp, err);
        rc = rc ? rc : append_add(&w->ids, w->records.buf, n, err);
    }
    return rc ? rc : append_flush(&w->ids, err);
}

int examples_new_commit(struct examples_new *w, struct err *err)
{
    int rc = w->h.rows
                 ? 0
                 : err_misuse(err, "no examples for %s: at least one row is needed", w->ids.f.path);

    rc = rc ? rc : examples_new_join(w, err);
    w->h.crc = header_crc(&w->h);
    rc = rc ? rc : file_pwrite(w->ids.f.fd, &w->h, sizeof w->h, 0, w->ids.f.temp, err);
    rc = rc ? rc : file_new_commit(&w->ids.f, err);
    examples_new_abort(w);
    return rc;
}

void examples_new_abort(struct examples_new *w)
{
    append_close(&w->ids);
    append_close(&w->records);
}
