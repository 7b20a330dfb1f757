/* text_files.c: opens one file after the other, finds out what it is, and fills blocks. What of a
 * file is not cut yet when a block is full is carried into the next block. */
#include "run/texts/text_files.h"

#include "data/file/file_kind.h"
#include "data/base/grow.h"
#include "data/base/hash.h"
#include "data/base/round.h"
#include "data/base/utf8.h"
#include "data/file/unpack.h"
#include "data/task/row_file.h"
#include "run/texts/text_cut.h"

#include <assert.h>

/* BLOCK_BYTES: of a block, unless a row is longer. LEAST_ROOM: with less, a block is full. So it is
 * with BLOCK_PIECES, because the cells of a table may be empty. */
enum { BLOCK_BYTES = 4 << 20, LEAST_ROOM = 1 << 16, BLOCK_PIECES = 1 << 17 };

struct text_files {
    struct text_files_of of;
    const char          *column;
    uint64_t             split; // documents whose hash is below this are on side 1
    struct text_list     list;
    size_t               file; // the current one; list.n: all have been read
    uint64_t             done; // bytes of the files before it
    uint32_t             sum;  // of their contents
    // of the current file:
    struct unpack  *u; // NULL: it is not open
    struct row_file rows; // TEXT_KIND_TABLE: u belongs to its stream
    size_t          field;
    uint64_t        n_rows;
    struct text_cut cut;
    char           *carry; // read and not cut
    size_t          n_carry, cap_carry;
};

const char *text_files_name(const struct text_files *t, size_t file)
{
    return unpack_shown(t->list.file[file].path);
}

struct text_reading text_files_reading(const struct text_files *t, size_t file)
{
    return (struct text_reading){ text_files_name(t, file), t->column, t->split };
}

int text_files_piped(const struct text_files *t)
{
    return text_list_inputs((const char *const *)t->list.item, t->list.n) > 0;
}

uint64_t text_files_bytes(const struct text_files *t)
{
    return text_files_piped(t) ? 0 : t->list.bytes;
}

uint64_t text_files_done(const struct text_files *t)
{
    uint64_t done = 0, total;

    if (t->u)
        unpack_progress(t->u, &done, &total);
    return t->done + done;
}

uint64_t text_files_hash(const struct text_files *t)
{
    uint64_t of[4] = { text_list_hash(&t->list), hash_bytes(t->column, strlen(t->column)),
                       t->split, (uint64_t)t->of.plain << 1 | (t->of.column != NULL) };

    return hash_bytes(of, sizeof of);
}

uint32_t text_files_sum(const struct text_files *t) { return t->sum; }

/* ---- what a file is ---- */

/* Refuses the current file: it is not what is wanted. */
static int refuse(const struct text_files *t, const struct file_look *look, struct err *err)
{
    const char *path = t->list.file[t->file].path, *format = unpack_format(t->u);
    struct err  why;

    if (strcmp(path, "-"))
        return format ? file_kind_refuse_packed(look, path, format, FILE_FOR_TEXT, err)
                      : file_kind_refuse(look, path, FILE_FOR_TEXT, err);
    file_kind_refuse(look, "FILE", FILE_FOR_TEXT, &why);
    return err_misuse(err, "standard input, as FILE: %s", why.text);
}

/* Begins the current file, and reads its first bytes. */
static int file_begin(struct text_files *t, struct file_look *look, struct err *err)
{
    const struct text_file *f = &t->list.file[t->file];
    int                     rc = unpack_begin(&t->u, f->path, err);

    if (rc)
        return rc;
    unpack_sum_begin(t->u, t->sum);
    rc = grow(&t->carry, &t->cap_carry, FILE_HEAD_BYTES, 1, "bytes of text", err);
    rc = rc ? rc : unpack_read(t->u, t->carry, FILE_HEAD_BYTES, &t->n_carry, err);
    if (rc)
        return rc;
    uint64_t size = unpack_format(t->u) || !f->size ? UINT64_MAX : f->size;

    file_kind_head(look, t->carry, t->n_carry, t->n_carry < FILE_HEAD_BYTES ? t->n_carry : size);
    t->cut.words = look->words;
    size_t mark = utf8_mark(t->carry, t->n_carry);

    if (mark) { // says UTF-8, and is no text
        t->n_carry -= mark;
        t->cut.at = mark;
        memmove(t->carry, t->carry + mark, t->n_carry);
        look->kind = t->n_carry ? look->kind : FILE_EMPTY;
    }
    return 0;
}

/* Opens the current file again as a table, and finds its column. *has: it has it. */
static int table_begin(struct text_files *t, int *has, struct err *err)
{
    const char *path = t->list.file[t->file].path;
    FILE       *f = NULL;

    unpack_end(t->u);
    int rc = unpack_begin(&t->u, path, err);

    if (rc)
        return rc;
    unpack_sum_begin(t->u, t->sum);
    if ((rc = unpack_stream(&f, t->u, err)))
        return rc;
    rc = row_file_open_stream(&t->rows, f, NULL, path, ROWS_CSV, err);
    t->cut.kind = TEXT_KIND_TABLE;
    t->cut.at = 0; // the reader of rows skips a byte order mark itself
    int got = rc ? rc : row_file_next(&t->rows, err);

    *has = 0;
    for (size_t i = 0; got > 0 && i < t->rows.n_fields && !*has; i++) {
        *has = !strcmp(row_file_field(&t->rows, i), t->column);
        t->field = i;
    }
    return got < 0 ? got : 0;
}

static void file_end(struct text_files *t)
{
    if (t->cut.kind == TEXT_KIND_TABLE)
        row_file_close(&t->rows); // u, too
    else
        unpack_end(t->u);
    t->u = NULL;
    t->n_carry = 0;
    t->n_rows = 0;
    t->cut = (struct text_cut){ .tok = t->of.tok, .split = t->split, .line = 1 };
}

static int is_list(const char *p, size_t n)
{
    size_t i = 0;

    while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n'))
        i++;
    return i < n && p[i] == '[';
}

/* The names of the columns in the first row of the current table, as far as they fit. */
static const char *columns_say(const struct text_files *t, char *out, size_t size)
{
    size_t n = 0, i = 0;

    for (*out = 0; i < t->rows.n_fields && n + 60 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s\"%.40s\"", i ? ", " : "",
                              row_file_field(&t->rows, i));
    if (i < t->rows.n_fields)
        snprintf(out + n, size - n, ", ...");
    return out;
}

/* A .csv or a .tsv that is no table here is a text, which is said. */
static int table_open(struct text_files *t, const struct events *events, struct err *err)
{
    const char      *path = t->list.file[t->file].path;
    int              has = 0, csv = unpack_named(path, ".csv");
    int              rc = csv ? table_begin(t, &has, err) : 0;
    struct file_look look;
    char             names[400] = "", why[520] = "";

    if (rc || has || (!csv && !unpack_named(path, ".tsv")))
        return rc;
    if (csv)
        columns_say(t, names, sizeof names);
    if (csv && t->of.column)
        return err_misuse(err, "%s: the table has no column \"%s\" (--text-column); its columns "
                          "are %s", path, t->column, names);
    if (csv) {
        snprintf(why, sizeof why, ": it has no column \"text\", and its columns are %s; "
                 "--text-column NAME makes a document of each row", names);
        file_end(t);
        t->cut.path = path;
        t->cut.file = t->file;
        if ((rc = file_begin(t, &look, err)))
            return rc;
    }
    events_notice(events, "%s is read as one text, with the separators and all columns of a "
                  "table%s (finetune takes rows)", path, why);
    return 0;
}

/* Opens the current file, or goes to the next one if it is empty and was found in a folder. */
static int file_open(struct text_files *t, const struct events *events, struct err *err)
{
    struct file_look look;
    int              rc = file_begin(t, &look, err);

    t->cut.path = text_files_name(t, t->file);
    t->cut.file = t->file;
    if (rc)
        return rc;
    if (look.kind == FILE_EMPTY && t->list.file[t->file].found) {
        file_end(t);
        t->file++;
        return 0;
    }
    if (look.kind != FILE_TEXT && look.kind != FILE_JSON)
        return refuse(t, &look, err);
    if (look.kind == FILE_JSON && !t->of.plain)
        t->cut.kind = is_list(t->carry, t->n_carry) ? TEXT_KIND_LIST : TEXT_KIND_LINES;
    else if (!t->of.plain)
        rc = table_open(t, events, err);
    return rc;
}

/* ---- opening ---- */

/* Looks at the beginning of all files, so that none is refused late. */
static int look_at_all(struct text_files *t, const struct events *events, struct err *err)
{
    struct watch w = work_begin(events, "looking at the files");
    int          rc = 0;

    for (size_t i = 0; i < t->list.n && !rc; i++) {
        t->file = i;
        if (!strcmp(t->list.file[i].path, "-"))
            continue;
        rc = file_open(t, events, err);
        if (t->u)
            file_end(t);
        rc = rc ? rc : watch_look(&w, i + 1, t->list.n, err);
    }
    t->file = 0;
    work_end(events);
    return rc;
}

int text_files_open(struct text_files **out, const struct text_files_of *of,
                    const struct events *events, struct err *err)
{
    struct text_files *t = *out = calloc(1, sizeof *t);

    if (!t)
        return err_set(err, -ENOMEM, "no memory to read texts");
    t->of = *of;
    t->column = of->column ? of->column : "text";
    t->split = text_split_below(of->split);
    t->cut = (struct text_cut){ .tok = of->tok, .split = t->split, .line = 1 };
    int rc = text_list_make(&t->list, of->texts, of->n, of->written, err);

    rc = rc ? rc : look_at_all(t, events, err);
    if (rc) {
        text_files_close(t);
        *out = NULL;
    }
    return rc;
}

void text_files_close(struct text_files *t)
{
    if (!t)
        return;
    if (t->u)
        file_end(t);
    text_list_free(&t->list);
    free(t->carry);
    free(t);
}

/* Reads and forgets the contents of the current file before `at`. */
static int skip_bytes(struct text_files *t, uint64_t at, struct watch *w, struct err *err)
{
    uint64_t left = at - t->cut.at, done, total;
    size_t   n = size_min(left, t->n_carry);
    int      rc = grow(&t->carry, &t->cap_carry, LEAST_ROOM, 1, "bytes of text", err);

    t->n_carry -= n;
    memmove(t->carry, t->carry + n, t->n_carry);
    for (left -= n; left && !rc; left -= n) {
        rc = unpack_read(t->u, t->carry, size_min(left, t->cap_carry), &n, err);
        if (!rc && !n)
            rc = err_set(err, -EIO, "%s ends %" PRIu64 " bytes before the place where reading "
                         "goes on: it was changed", t->cut.path, left);
        unpack_progress(t->u, &done, &total);
        rc = rc ? rc : watch_look(w, done, total, err);
    }
    return rc;
}

static int skip_rows(struct text_files *t, uint64_t rows, struct watch *w, struct err *err)
{
    int got = 1;

    while (t->n_rows < rows && got > 0) {
        got = row_file_next(&t->rows, err);
        t->n_rows++;
        if (got > 0 && t->n_rows % 4096 == 0 && watch_look(w, t->n_rows, rows, err))
            return -EINTR;
    }
    return got < 0 ? got : 0;
}

int text_files_go(struct text_files *t, const struct text_place *place,
                  const struct events *events, struct err *err)
{
    int rc = 0;

    for (t->file = 0; t->file < place->file; t->file++)
        t->done += t->list.file[t->file].size;
    t->sum = place->sum;
    if (t->file == t->list.n || !(place->at || place->rows))
        return 0;
    rc = file_open(t, NULL, err);
    if (rc || !t->u)
        return rc ? rc : err_set(err, -EIO, "%s was changed", text_files_name(t, place->file));
    struct watch w = work_begin(events, "going to the place in %s", t->cut.path);

    rc = t->cut.kind == TEXT_KIND_TABLE ? skip_rows(t, place->rows, &w, err)
                                        : skip_bytes(t, place->at, &w, err);
    work_end(events);
    t->cut.at = place->at;
    t->cut.line = place->line;
    t->cut.list = (enum text_in_list)place->list;
    t->cut.begun = place->begun;
    t->cut.side = place->side;
    t->cut.ahead = (size_t)place->ahead;
    return rc;
}

/* ---- filling a block ---- */

static int room_make(struct text_block *b, size_t n, struct err *err)
{
    return grow(&b->text, &b->cap, n, 1, "bytes of text", err);
}

/* The current file has been read to its end. */
static void file_done(struct text_files *t)
{
    t->sum = unpack_sum(t->u);
    t->done += t->list.file[t->file].size;
    file_end(t);
    t->file++;
}

static int has_room(const struct text_block *b)
{
    return b->n + LEAST_ROOM < BLOCK_BYTES && b->n_pieces < BLOCK_PIECES;
}

static int table_fill(struct text_files *t, struct text_block *b, struct err *err)
{
    int got = 1, rc = 0;

    while (!rc && has_room(b) && (got = row_file_next(&t->rows, err)) > 0) {
        t->n_rows++;
        if (t->field >= t->rows.n_fields)
            return err_misuse(err, "%s:%zu: the row has %zu columns, and \"%s\" is column %zu",
                              t->cut.path, t->rows.line, t->rows.n_fields, t->column,
                              t->field + 1);
        const char *text = row_file_field(&t->rows, t->field);
        size_t      n = strlen(text);

        rc = room_make(b, b->n + n, err);
        rc = rc ? rc : text_piece_add(b, &(struct text_piece){ .from = b->n, .n = n,
                                          .line = t->rows.line, .file = t->file,
                                          .form = TEXT_FIELD, .begins = 1, .ends = 1 }, err);
        if (!rc)
            memcpy(b->text + b->n, text, n);
        b->n += rc ? 0 : n;
    }
    if (got < 0) {
        rc = unpack_failed(t->u, err); // says more than that reading failed
        return rc ? rc : got;
    }
    if (!rc && !got)
        file_done(t);
    return rc;
}

/* Reads until the block is full, or longer if a row is. */
static int bytes_fill(struct text_files *t, struct text_block *b, struct err *err)
{
    size_t from = b->n, pieces = b->n_pieces, used, got;
    size_t most = size_max(BLOCK_BYTES, from + size_min(2 * t->n_carry, ROW_MAX_BYTES));
    int    final = 0;
    int    rc = room_make(b, most, err);

    if (rc)
        return rc;
    memcpy(b->text + from, t->carry, t->n_carry);
    b->n += t->n_carry;
    t->n_carry = 0;
    for (;; most = size_min(2 * most, ROW_MAX_BYTES)) {
        rc = room_make(b, most, err);
        rc = rc ? rc : unpack_read(t->u, b->text + b->n, most - b->n, &got, err);
        if (rc)
            return rc;
        b->n += got;
        final = b->n < most;
        rc = text_cut(&t->cut, b, from, final, &used, err);
        if (rc || final || used || b->n_pieces > pieces || from)
            break;
        if (b->n - from >= ROW_MAX_BYTES)
            return err_misuse(err, "%s:%" PRIu64 ": this row has more than %d MiB: divide its text "
                              "among several rows", t->cut.path, t->cut.line,
                              ROW_MAX_BYTES >> 20);
    }
    if (rc)
        return rc;
    t->n_carry = b->n - from - used;
    b->n = from + used;
    rc = grow(&t->carry, &t->cap_carry, t->n_carry, 1, "bytes of text", err);
    if (!rc)
        memcpy(t->carry, b->text + b->n, t->n_carry);
    if (!rc && final)
        file_done(t);
    return rc;
}

static void place_take(const struct text_files *t, struct text_place *p)
{
    *p = (struct text_place){ .file = t->file, .sum = t->sum };
    if (!t->u)
        return;
    p->at = t->cut.at;
    p->line = t->cut.line;
    p->rows = t->n_rows;
    p->ahead = t->cut.ahead;
    p->list = (uint8_t)t->cut.list;
    p->begun = t->cut.begun != 0;
    p->side = t->cut.side != 0;
    p->held = t->cut.held != 0;
}

void text_files_read(struct text_files *t, struct text_block *b)
{
    size_t before;

    b->n = b->n_pieces = 0;
    b->rc = 0;
    do {
        before = t->file;
        if (t->file < t->list.n && !t->u)
            b->rc = file_open(t, NULL, &b->err);
        if (!b->rc && t->u)
            b->rc = t->cut.kind == TEXT_KIND_TABLE ? table_fill(t, b, &b->err)
                                                   : bytes_fill(t, b, &b->err);
    } while (!b->rc && t->file > before && t->file < t->list.n && has_room(b));
    b->done = text_files_done(t);
    b->end = t->file == t->list.n;
    place_take(t, &b->place);
}

void text_block_free(struct text_block *b)
{
    free(b->text);
    free(b->piece);
    *b = (struct text_block){ 0 };
}
