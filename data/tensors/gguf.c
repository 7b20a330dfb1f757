/* gguf.c: reads the header of a GGUF file.
 *
 * A file may come from anybody, so nothing in it is trusted. The header has no length of its own:
 * it is read into memory piece by piece as it is parsed, never more than the file has and never
 * more than HEADER_MAX. Counts are checked against the bytes that are left before anything is
 * allocated for them. Values are kept as offsets into the header. After gguf_open every string and
 * array lies inside the header, and every tensor of a known type lies inside the file and overlaps
 * no other. */
#include "data/tensors/gguf.h"

#include "data/base/crc32c.h"
#include "data/base/grow.h"
#include "data/base/table.h"

#include <strings.h>
#include <unistd.h>

#define HEADER_MAX ((uint64_t)512 << 20)
enum { PIECE = 64 << 10, NAME_MAX_BYTES = 1024, VERSION_BIG = 0x03000000 };

/* ---- the header's bytes ---- */

struct parsing { struct gguf *g; uint64_t at, size; uint64_t alignment; };

static int cut(const struct parsing *p, struct err *err)
{
    return err_misuse(err, "%s is truncated: its header goes on behind the end of the file (%"
                      PRIu64 " bytes)", p->g->path, p->size);
}

/* Makes the header hold the next n bytes. */
static int need(struct parsing *p, uint64_t n, struct err *err)
{
    struct gguf *g = p->g;

    if (n > p->size - p->at)
        return cut(p, err);
    if (n > HEADER_MAX - p->at)
        return err_misuse(err, "%s: a header of more than %" PRIu64 " MiB", g->path,
                          HEADER_MAX >> 20);
    if (p->at + n <= g->used)
        return 0;
    uint64_t end = p->at + n + PIECE;

    end = end > p->size ? p->size : end;
    if (grow(&g->header, &g->cap, end, 1, "bytes of a header", err))
        return -ENOMEM;
    int rc = file_pread(g->fd, g->header + g->used, end - g->used, g->used, g->path, err);

    g->used = rc ? g->used : end;
    return rc;
}

static int take(struct parsing *p, void *out, size_t bytes, struct err *err)
{
    int rc = need(p, bytes, err);

    if (!rc) {
        memcpy(out, p->g->header + p->at, bytes);
        p->at += bytes;
    }
    return rc;
}

static int skip_text(struct parsing *p, uint64_t *at, uint64_t *n, struct err *err)
{
    int rc = take(p, n, sizeof *n, err);

    rc = rc ? rc : need(p, *n, err);
    *at = p->at;
    p->at += rc ? 0 : *n;
    return rc;
}

/* Reads a name: a string without control characters, malloced. */
static int take_name(struct parsing *p, char **out, const char *what, struct err *err)
{
    uint64_t at, n;
    int      rc = skip_text(p, &at, &n, err);

    *out = NULL;
    if (rc)
        return rc;
    if (n == 0 || n > NAME_MAX_BYTES)
        return err_misuse(err, "%s: the name of a %s has %" PRIu64 " bytes, but 1 to %d are "
                          "allowed", p->g->path, what, n, NAME_MAX_BYTES);
    for (uint64_t i = 0; i < n; i++)
        if (p->g->header[at + i] < ' ' || p->g->header[at + i] >= 127)
            return err_misuse(err, "%s: the name of a %s has a byte that is no printable ASCII "
                              "character", p->g->path, what);
    *out = strndup((const char *)p->g->header + at, n);
    return *out ? 0 : err_set(err, -ENOMEM, "no memory for the header of %s", p->g->path);
}

/* ---- keys ---- */

static size_t kind_bytes(enum gguf_kind kind)
{
    static const size_t bytes[GGUF_KINDS] = {
        [GGUF_U8] = 1, [GGUF_I8] = 1, [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4,
        [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8,
        [GGUF_F64] = 8, [GGUF_STRING] = 8 // at least: its length
    };

    return bytes[kind];
}

static int take_kind(struct parsing *p, enum gguf_kind *out, const char *key, struct err *err)
{
    uint32_t kind;
    int      rc = take(p, &kind, sizeof kind, err);

    if (!rc && kind >= GGUF_KINDS)
        rc = err_misuse(err, "%s: the key %s has a value of the unknown type %" PRIu32, p->g->path,
                        key, kind);
    *out = rc ? GGUF_U8 : (enum gguf_kind)kind;
    return rc;
}

static int take_value(struct parsing *p, struct gguf_value *v, struct err *err)
{
    uint64_t at, n;
    int      rc = take_name(p, &v->key, "key", err);

    rc = rc ? rc : take_kind(p, &v->kind, v->key, err);
    v->n = 1;
    v->is_array = !rc && v->kind == GGUF_ARRAY;
    if (v->is_array) {
        rc = take_kind(p, &v->kind, v->key, err);
        if (!rc && v->kind == GGUF_ARRAY)
            rc = err_misuse(err, "%s: the key %s is an array of arrays, which no model has",
                            p->g->path, v->key);
        rc = rc ? rc : take(p, &v->n, sizeof v->n, err);
    }
    if (rc)
        return rc;
    if (v->n > (p->size - p->at) / kind_bytes(v->kind))
        return v->is_array ? err_misuse(err, "%s is truncated: the key %s has %" PRIu64
                                        " elements, more than the file has room for", p->g->path,
                                        v->key, v->n)
                           : cut(p, err);
    v->at = p->at;
    for (uint64_t i = 0; v->kind == GGUF_STRING && i < v->n && !rc; i++)
        rc = skip_text(p, &at, &n, err);
    if (v->kind == GGUF_STRING)
        return rc;
    rc = need(p, v->n * kind_bytes(v->kind), err);
    p->at += v->n * kind_bytes(v->kind);
    return rc;
}

static int take_values(struct parsing *p, uint64_t n, struct err *err)
{
    struct gguf *g = p->g;
    int          rc = 0;

    for (uint64_t i = 0; i < n && !rc; i++) {
        if (grow(&g->values, &g->values_cap, g->n_values + 1, sizeof *g->values, "keys", err))
            return -ENOMEM;
        g->values[g->n_values] = (struct gguf_value){ 0 };
        rc = take_value(p, &g->values[g->n_values++], err);
    }
    const char *twice = rc ? NULL : table_sort(g->values, g->n_values, sizeof *g->values);
    return twice ? err_misuse(err, "%s: the key %s is there twice", g->path, twice) : rc;
}

static int alignment_read(struct parsing *p, struct err *err)
{
    const struct gguf_value *v = gguf_find(p->g, "general.alignment");
    double                   said = GGUF_ALIGNMENT;
    int                      bad = v && (v->is_array || gguf_number(&said, p->g, v, 0));

    if (!bad)
        bad = !(said >= 8 && said <= 1 << 20);
    p->alignment = bad ? GGUF_ALIGNMENT : (uint64_t)said;
    return bad || p->alignment & (p->alignment - 1)
               ? err_misuse(err, "%s: general.alignment must be a power of two from 8 to 1048576",
                            p->g->path)
               : 0;
}

/* ---- tensors ---- */

static int take_dims(struct parsing *p, struct gguf_tensor *t, struct err *err)
{
    uint32_t n;
    int      rc = take(p, &n, sizeof n, err);

    if (!rc && (n == 0 || n > GGUF_DIMS))
        rc = err_misuse(err, "%s: tensor %s has %" PRIu32 " dimensions, but 1 to %d are allowed",
                        p->g->path, t->name, n, GGUF_DIMS);
    t->count = 1;
    t->n_dims = rc ? 0 : (int)n;
    for (int i = 0; i < t->n_dims && !rc; i++) {
        rc = take(p, &t->dims[i], sizeof t->dims[i], err);
        if (!rc && (t->dims[i] == 0 || __builtin_mul_overflow(t->count, t->dims[i], &t->count) ||
                    t->count > UINT64_MAX / 16))
            rc = err_misuse(err, "%s: tensor %s has a shape of no or too many elements",
                            p->g->path, t->name);
    }
    return rc;
}

static int take_tensor(struct parsing *p, struct gguf_tensor *t, struct err *err)
{
    int rc = take_name(p, &t->name, "tensor", err);

    rc = rc ? rc : take_dims(p, t, err);
    rc = rc ? rc : take(p, &t->type, sizeof t->type, err);
    rc = rc ? rc : take(p, &t->offset, sizeof t->offset, err);
    if (rc || !gguf_type_is_read(t->type))
        return rc;
    if (t->type == GGUF_TYPE_Q8_0 && t->dims[0] % GGUF_BLOCK)
        return err_misuse(err, "%s: tensor %s is Q8_0, but its rows of %" PRIu64 " elements are "
                          "no multiple of %d", p->g->path, t->name, t->dims[0], GGUF_BLOCK);
    t->bytes = gguf_type_bytes((enum gguf_type)t->type, t->count);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *p = a, *q = b;

    return (p->offset > q->offset) - (p->offset < q->offset);
}

/* Checks the places of all tensors in the `bytes` of data, and makes offsets those of the file. */
static int places_check(struct parsing *p, struct err *err)
{
    struct gguf *g = p->g;
    uint64_t     begin = (p->at + p->alignment - 1) & ~(p->alignment - 1),
                 data = p->size > begin ? p->size - begin : 0;

    if (g->n_tensors)
        qsort(g->tensors, g->n_tensors, sizeof *g->tensors, by_place);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i], *before = i ? t - 1 : NULL;

        if (t->offset % p->alignment)
            return err_misuse(err, "%s: the data of tensor %s do not begin at a multiple of %"
                              PRIu64 " bytes", g->path, t->name, p->alignment);
        if (t->offset > data || t->bytes > data - t->offset)
            return err_misuse(err, "%s is truncated: the data of tensor %s go on behind the end "
                              "of the file", g->path, t->name);
        if (before && t->offset + begin < before->offset + before->bytes)
            return err_misuse(err, "%s: the data of tensors %s and %s overlap", g->path,
                              before->name, t->name);
        t->offset += begin;
    }
    return 0;
}

static int take_tensors(struct parsing *p, uint64_t n, struct err *err)
{
    struct gguf *g = p->g;
    int          rc = 0;

    for (uint64_t i = 0; i < n && !rc; i++) {
        if (grow(&g->tensors, &g->tensors_cap, g->n_tensors + 1, sizeof *g->tensors, "tensors",
                 err))
            return -ENOMEM;
        g->tensors[g->n_tensors] = (struct gguf_tensor){ 0 };
        rc = take_tensor(p, &g->tensors[g->n_tensors++], err);
    }
    rc = rc ? rc : places_check(p, err);
    const char *twice = rc ? NULL : table_sort(g->tensors, g->n_tensors, sizeof *g->tensors);
    return twice ? err_misuse(err, "%s: the tensor %s is there twice", g->path, twice) : rc;
}

/* ---- the file ---- */

static int parse(struct parsing *p, struct err *err)
{
    char     magic[4];
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    int      rc = take(p, magic, sizeof magic, err);

    if (!rc && memcmp(magic, GGUF_MAGIC, sizeof magic))
        return err_misuse(err, "%s is no GGUF file", p->g->path);
    rc = rc ? rc : take(p, &version, sizeof version, err);
    if (!rc && version >= VERSION_BIG)
        return err_misuse(err, "%s is a big-endian GGUF file: convert the model again without "
                          "--bigendian", p->g->path);
    if (!rc && version != 2 && version != GGUF_VERSION)
        return err_misuse(err, "%s is a GGUF file of version %" PRIu32 ", but 2 and 3 are known: "
                          "convert the model again with a llama.cpp of today", p->g->path, version);
    rc = rc ? rc : take(p, &n_tensors, sizeof n_tensors, err);
    rc = rc ? rc : take(p, &n_values, sizeof n_values, err);
    rc = rc ? rc : take_values(p, n_values, err);
    rc = rc ? rc : alignment_read(p, err);
    return rc ? rc : take_tensors(p, n_tensors, err);
}

/* Returns 1 if the file begins as a GGUF file, 0 if not, or -errno if nobody could look. */
static int has_magic(const char *path)
{
    char        magic[4] = "";
    int         fd, rc;
    uint64_t    size;
    struct stat st;

    if (stat(path, &st))
        return file_is_absent(errno) ? 0 : -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    if ((rc = file_open_read(path, &fd, &size, NULL)))
        return file_is_unread(rc) ? rc : 0;
    rc = size < sizeof magic ? 0 : file_pread(fd, magic, sizeof magic, 0, path, NULL);
    close(fd);
    return rc ? file_is_unread(rc) ? rc : 0 : !memcmp(magic, GGUF_MAGIC, sizeof magic);
}

int gguf_is_file(const char *path)
{
    const char *dot = strrchr(path, '.');
    int         has = has_magic(path);

    has = has < 0 ? has_magic(path) : has; // one failed look tells nothing
    return has >= 0 ? has : dot && !strcasecmp(dot, ".gguf"); // opening it says why
}

int gguf_open(struct gguf **out, const char *path, struct err *err)
{
    struct gguf   *g = calloc(1, sizeof *g);
    struct parsing p = { .g = g };

    *out = NULL;
    if (!g)
        return err_set(err, -ENOMEM, "no memory for the header of %s", path);
    g->fd = -1;
    g->path = strdup(path);
    int rc = g->path ? file_open_was(path, &g->fd, &g->was, err)
                     : err_set(err, -ENOMEM, "no memory for the header of %s", path);

    p.size = (uint64_t)g->was.st_size;
    rc = rc ? rc : parse(&p, err);
    if (rc) {
        gguf_close(g);
        return rc;
    }
    g->sum = crc32c(0, g->header, p.at);
    g->bytes = p.size;
    *out = g;
    return 0;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_values; i++)
        free(g->values[i].key);
    for (size_t i = 0; i < g->n_tensors; i++)
        free(g->tensors[i].name);
    file_close(g->fd);
    free(g->values);
    free(g->tensors);
    free(g->header);
    free(g->path);
    free(g);
}

/* ---- values ---- */

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    return g->n_values ? bsearch(&key, g->values, g->n_values, sizeof *g->values, table_by_name)
                       : NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    return g->n_tensors ? bsearch(&name, g->tensors, g->n_tensors, sizeof *g->tensors,
                                  table_by_name)
                        : NULL;
}

int gguf_number(double *out, const struct gguf *g, const struct gguf_value *v, uint64_t i)
{
    union { uint8_t u8; int8_t i8; uint16_t u16; int16_t i16; uint32_t u32; int32_t i32; float f32;
            uint64_t u64; int64_t i64; double f64; } is = { 0 };

    if (v->kind == GGUF_STRING || i >= v->n)
        return -1;
    memcpy(&is, g->header + v->at + i * kind_bytes(v->kind), kind_bytes(v->kind));
    switch (v->kind) {
    case GGUF_U8: case GGUF_BOOL: *out = is.u8; break;
    case GGUF_I8:                 *out = is.i8; break;
    case GGUF_U16:                *out = is.u16; break;
    case GGUF_I16:                *out = is.i16; break;
    case GGUF_U32:                *out = is.u32; break;
    case GGUF_I32:                *out = is.i32; break;
    case GGUF_F32:                *out = (double)is.f32; break;
    case GGUF_U64:                *out = (double)is.u64; break;
    case GGUF_I64:                *out = (double)is.i64; break;
    default:                      *out = is.f64; break;
    }
    return 0;
}

const char *gguf_next_text(size_t *n, uint64_t *at, const struct gguf *g,
                           const struct gguf_value *v)
{
    const unsigned char *p = g->header + v->at + *at;
    uint64_t             bytes;

    memcpy(&bytes, p, sizeof bytes);
    *n = bytes;
    *at += sizeof bytes + bytes;
    return (const char *)p + sizeof bytes;
}

const char *gguf_text(size_t *n, const struct gguf *g, const struct gguf_value *v)
{
    uint64_t at = 0;

    *n = 0;
    return v && v->kind == GGUF_STRING && !v->is_array ? gguf_next_text(n, &at, g, v) : NULL;
}

const char *gguf_shown(char out[GGUF_SHOWN], const char *text, size_t n)
{
    size_t i = 0;

    for (; text && i < n && i < 60; i++)
        out[i] = (char)(text[i] < ' ' || text[i] >= 127 ? '?' : text[i]);
    out[i] = '\0';
    return out;
}
