/* tokens.c: reads and checks files of token ids.
 *
 * Files are read with pread, never mapped: a mapping would count against the promised memory.
 * Nothing is allocated after tokens_open and tokens_expect. */
#include "data/text/tokens.h"

#include "data/base/crc32c.h"
#include "data/file/file_kind.h"
#include "data/base/round.h"
#include "data/base/table.h"
#include "data/text/llmc_file.h"

#include <assert.h>
#include <strings.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define PIECE_IDS 4096u
#define PART      ((size_t)1 << 16)

/* The largest vocabulary of bytes: its ids may look like UTF-16. In a larger vocabulary not all
 * words have one byte. */
#define MOST_BYTE_IDS 512u

/* sum: expected; parts: of its parts, after it was as expected. */
struct mib { uint32_t sum, parts[MIB / PART]; int checked; };

/* ---- recognising a file ---- */

static const struct llmc_format *format_of(const struct llmc_header *h)
{
    for (size_t i = 0; i < LLMC_FORMATS; i++)
        if (h->magic == llmc_formats[i].magic)
            return &llmc_formats[i];
    return NULL;
}

int tokens_ours(const void *head, size_t n)
{
    struct llmc_header h;

    if (n < sizeof h + sizeof llmc_mark)
        return 0;
    memcpy(&h, head, sizeof h);
    return format_of(&h) && !memcmp((const char *)head + sizeof h, llmc_mark, sizeof llmc_mark);
}

TABLE_WORDS(tokens_format_name, [TOKENS_AUTO] = "auto", [TOKENS_TEXT] = "text",
            [TOKENS_U16] = "u16", [TOKENS_U32] = "u32")

/* Whether ids at the beginning of a file, read as integers of `width` bytes, are halves of ids
 * twice as wide: then every other one is an upper half, and small. */
static int halves_of_wider(const unsigned char *p, size_t n, unsigned width, size_t vocab)
{
    uint64_t most = width == 2 ? (vocab - 1) >> 16 : 0, any = 0, half;

    if (n < 16 * width)
        return 0;
    for (size_t i = 0; i + 2 * width <= n; i += 2 * width) {
        half = 0;
        memcpy(&half, p + i + width, width);
        if (half > most)
            return 0;
        for (unsigned k = 0; k < width; k++)
            any |= p[i + k];
    }
    return any != 0;
}

static int check_width(const char *path, unsigned width, size_t vocab, struct err *err)
{
    unsigned char *head = malloc(MIB);
    uint64_t       size;
    int            fd = -1, rc = head ? file_open_read(path, &fd, &size, err)
                                      : err_set(err, -ENOMEM, "no memory to look at %s", path);
    size_t         n = rc ? 0 : size_min(size, MIB);

    rc = rc ? rc : file_pread(fd, head, n, 0, path, err);
    if (!rc && halves_of_wider(head, n, width, vocab)) {
        if (width == 2 && !halves_of_wider(head, n, 4, vocab))
            rc = err_misuse(err, "%s holds uint32 ids, as its zeros show, and would be read as "
                            "uint16: give --data-format u32", path);
        else
            rc = err_misuse(err, "%s holds uint64 ids, as its zeros show, and would be read as "
                            "uint%u: python3 -c \"import numpy; numpy.fromfile('%.300s', '<u8')"
                            ".astype('<u4').tofile('%.300s.u32.bin')\" makes ids that "
                            "--data-format u32 reads", path, 8 * width, path, path);
    }
    file_close(fd);
    free(head);
    return rc;
}

/* Checks an asked-for width against llm.c's header, which has the width of its ids. */
static int header_width(const char *path, enum tokens_format as, unsigned width, struct err *err)
{
    unsigned asked = as == TOKENS_U16 ? 2 : as == TOKENS_U32 ? 4 : 0;

    return as == TOKENS_AUTO || asked == width
               ? 0
               : err_misuse(err, "--data-format %s: %s has llm.c's header, which says uint%u ids: "
                            "leave the option out", tokens_format_name(as), path, 8 * width);
}

int tokens_named(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && !strcasecmp(dot, ".bin");
}

int tokens_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                  const struct watch *watch, struct err *err)
{
    struct file_look look;
    int              rc = file_kind_look(&look, path, watch, err);
    int text = look.kind == FILE_TEXT || look.kind == FILE_JSON;
    int ids = as == TOKENS_U16 || as == TOKENS_U32 || (as == TOKENS_AUTO && tokens_named(path));

    *width = 0;
    if (rc)
        return rc;
    if (look.kind == FILE_TOKENS) {
        *width = look.width;
        return header_width(path, as, look.width, err);
    }
    if (text && (as == TOKENS_U16 || as == TOKENS_U32))
        return err_misuse(err, "--data-format %s: %s is a text, without a byte that no text has: "
                          "leave the option out", tokens_format_name(as), path);
    if (text || (file_kind_is_packed(&look) && (as == TOKENS_AUTO || as == TOKENS_TEXT)))
        return 0;
    if (look.guessed && ids && (as != TOKENS_AUTO || vocab <= MOST_BYTE_IDS))
        look.kind = FILE_BYTES;
    if (!ids || look.kind != FILE_BYTES)
        return file_kind_refuse(&look, path, FILE_FOR_DATA, err);
    *width = as == TOKENS_U32 || (as == TOKENS_AUTO && vocab > 65536) ? 4 : 2;
    return check_width(path, *width, vocab, err);
}

/* ---- opening ---- */

static int tokens_open_llmc(struct tokens *t, const struct llmc_header *h,
                            const struct llmc_format *f, struct err *err)
{
    if (t->size < LLMC_HEADER_BYTES)
        return err_misuse(err, "%s begins as an llm.c token file, but its %" PRIu64 " bytes are "
                          "less than the header's %u", t->path, t->size, LLMC_HEADER_BYTES);
    if (h->version != f->version)
        return err_misuse(err, "%s is an llm.c token file of version %d, but with its magic number "
                          "%d only version %d (uint%u ids) is known", t->path, h->version, h->magic,
                          f->version, 8 * f->width);
    t->count = (uint64_t)h->count;
    unsigned char more[LLMC_COUNT_AT + sizeof t->count];
    int           rc = h->count == LLMC_COUNT_BEHIND
                           ? file_pread(t->fd, more, sizeof more, 0, t->path, err) : 0;

    if (rc)
        return rc;
    int ours = h->count == LLMC_COUNT_BEHIND && tokens_ours(more, sizeof more);

    if (ours)
        memcpy(&t->count, more + LLMC_COUNT_AT, sizeof t->count);
    if ((h->count < 0 && !ours) || t->size < LLMC_HEADER_BYTES || t->size % f->width ||
        (t->size - LLMC_HEADER_BYTES) / f->width != t->count)
        return err_misuse(err, "%s has %" PRIu64 " bytes, but its header says %" PRId64
                          " tokens of uint%u, which take %" PRId64, t->path, t->size,
                          (int64_t)t->count, 8 * f->width,
                          (int64_t)(LLMC_HEADER_BYTES + f->width * t->count));
    t->data_off = LLMC_HEADER_BYTES;
    t->width = f->width;
    return 0;
}

int tokens_open(struct tokens **out, const char *path, unsigned width, struct err *err)
{
    struct tokens     *t = calloc(1, sizeof *t);
    struct llmc_header h = { 0 }; // stays so where the file is too short for one

    *out = NULL;
    if (!t)
        return err_set(err, -ENOMEM, "no memory to open %s", path);
    t->fd = -1;
    t->width = width;
    t->path = strdup(path);
    t->mib = malloc(MIB);
    int rc = t->path && t->mib ? file_open_read(path, &t->fd, &t->size, err)
                               : err_set(err, -ENOMEM, "no memory to open %s", path);

    rc = rc ? rc : file_pread(t->fd, &h, size_min(t->size, sizeof h), 0, path, err);
    const struct llmc_format *f = format_of(&h);
    if (!rc && f)
        rc = tokens_open_llmc(t, &h, f, err);
    else if (!rc && t->size % width)
        rc = err_misuse(err, "%s has no llm.c header, and its %" PRIu64 " bytes are no whole "
                        "number of uint%u ids", path, t->size, 8 * width);
    else
        t->count = t->size / width;
    if (rc)
        tokens_close(t);
    else
        *out = t;
    return rc;
}

void tokens_close(struct tokens *t)
{
    if (!t)
        return;
    file_close(t->fd);
    free(t->path);
    free(t->mibs);
    free(t->mib);
    free(t);
}

/* ---- checksums ---- */

size_t tokens_sums(const struct tokens *t) { return div_up(t->size, MIB); }

/* Reads bytes of the file into the buffer, and computes their CRC32C. */
static int tokens_sum(struct tokens *t, uint64_t off, size_t n, uint32_t *sum, struct err *err)
{
    int rc = file_pread(t->fd, t->mib, n, off, t->path, err);

    t->held_bytes = 0;
    if (!rc)
        *sum = crc32c(0, t->mib, n);
    return rc;
}

static size_t mib_bytes(const struct tokens *t, size_t i)
{
    return size_min(t->size - (uint64_t)i * MIB, MIB);
}

int tokens_hash(struct tokens *t, uint32_t *sums, const struct watch *watch, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < tokens_sums(t) && !rc; i++) {
        rc = tokens_sum(t, (uint64_t)i * MIB, mib_bytes(t, i), &sums[i], err);
        rc = rc ? rc : watch_look(watch, i + 1, tokens_sums(t), err);
    }
    return rc;
}

int tokens_expect(struct tokens *t, const uint32_t *sums, size_t n, struct err *err)
{
    if (n != tokens_sums(t))
        return err_set(err, -EINVAL, "%s is %zu MiB long, but %zu MiB were recorded when it was "
                       "first used: bring back the file as it was", t->path, tokens_sums(t), n);
    free(t->mibs);
    t->mibs = calloc(n + 1, sizeof *t->mibs);
    t->held_bytes = 0;
    if (!t->mibs)
        return err_set(err, -ENOMEM, "no memory for the checksums of %s", t->path);
    for (size_t i = 0; i < n; i++)
        t->mibs[i].sum = sums[i];
    return 0;
}

int tokens_verify(struct tokens *t, size_t i, struct err *err)
{
    uint64_t at = (uint64_t)i * MIB;
    size_t   n = mib_bytes(t, i);
    uint32_t sum;

    assert(t->mibs && i < tokens_sums(t));
    int rc = tokens_sum(t, at, n, &sum, err);

    if (!rc && sum != t->mibs[i].sum)
        rc = err_set(err, -EINVAL, "%s was changed since it was first used: the MiB at byte "
                     "%" PRIu64 " has checksum %08x, recorded is %08x: bring back the file as it "
                     "was", t->path, at, sum, t->mibs[i].sum);
    if (rc)
        return rc;
    t->held = at;
    t->held_bytes = n;
    for (size_t k = 0; k * PART < n; k++)
        t->mibs[i].parts[k] = crc32c(0, t->mib + k * PART, size_min(n - k * PART, PART));
    t->mibs[i].checked = 1;
    return 0;
}

/* Reads the part around byte `off` into the buffer. A MiB is compared as a whole at its first use;
 * from then on it is enough to read and compare a part. */
static int tokens_hold(struct tokens *t, uint64_t off, struct err *err)
{
    uint64_t at = off / PART * PART;
    size_t   n = size_min(t->size - at, PART);
    uint32_t sum;

    if (off >= t->held && off - t->held < t->held_bytes)
        return 0;
    if (!t->mibs[off / MIB].checked)
        return tokens_verify(t, (size_t)(off / MIB), err);
    uint32_t had = t->mibs[off / MIB].parts[off % MIB / PART];
    int      rc = tokens_sum(t, at, n, &sum, err);

    if (!rc && sum != had)
        rc = err_set(err, -EINVAL, "%s was changed while it is in use: the %zu bytes at byte "
                     "%" PRIu64 " have checksum %08x, they had %08x", t->path, n, at, sum, had);
    t->held = at;
    t->held_bytes = rc ? 0 : n;
    return rc;
}

/* Reads bytes of the file. If sums are expected, only bytes that were compared after reading are
 * used. */
static int tokens_bytes(struct tokens *t, uint64_t off, unsigned char *raw, size_t n,
                        struct err *err)
{
    if (!t->mibs)
        return file_pread(t->fd, raw, n, off, t->path, err);
    for (size_t part; n > 0; raw += part, off += part, n -= part) {
        int rc = tokens_hold(t, off, err);

        if (rc)
            return rc;
        size_t at = (size_t)(off - t->held);

        part = size_min(n, t->held_bytes - at);
        memcpy(raw, t->mib + at, part);
    }
    return 0;
}

int tokens_read(struct tokens *t, uint64_t first, size_t n, size_t vocab, int32_t *ids,
                struct err *err)
{
    uint32_t wide[PIECE_IDS];
    uint16_t narrow[PIECE_IDS];
    void    *raw = t->width == sizeof *wide ? (void *)wide : narrow;
    int      rc = 0;

    assert(vocab <= INT32_MAX);
    if (first > t->count || n > t->count - first)
        return err_misuse(err, "%s holds %" PRIu64 " tokens, but %zu from position %" PRIu64
                          " were asked for", t->path, t->count, n, first);
    for (size_t done = 0, part; !rc && done < n; done += part) {
        part = size_min(n - done, PIECE_IDS);
        rc = tokens_bytes(t, t->data_off + t->width * (first + done), raw, t->width * part, err);
        for (size_t i = 0; !rc && i < part; i++) {
            uint32_t id = raw == wide ? wide[i] : narrow[i];

            ids[done + i] = (int32_t)id;
            if (id >= vocab)
                rc = err_misuse(err, "%s: id %" PRIu32 " at position %" PRIu64 " is not below the "
                                "vocabulary's %zu%s", t->path, id, first + done + i, vocab,
                                t->data_off         ? ""
                                : raw == (void *)wide ? " (without a header it is read as uint32)"
                                                      : " (without a header it is read as uint16)");
        }
    }
    return rc;
}

int tokens_row(struct tokens *t, uint64_t row, size_t seq, size_t vocab, int32_t *x, int32_t *y,
               struct err *err)
{
    int rc = tokens_read(t, row * seq, seq, vocab, x, err);

    rc = rc ? rc : tokens_read(t, row * seq + seq, 1, vocab, &y[seq - 1], err);
    if (!rc)
        memcpy(y, x + 1, (seq - 1) * sizeof *x);
    return rc;
}
