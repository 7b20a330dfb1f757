/* text_cut.c: finds the ends of rows by scanning for newlines, or for the brace that closes an
 * object. Parsing is left to the threads that tokenise. */
#include "run/texts/text_cut.h"

#include "data/base/grow.h"
#include "data/base/hash.h"
#include "data/base/round.h"
#include "data/base/utf8.h"

#include <assert.h>
#include <math.h>

/* A text is cut into pieces of at least PIECE_BYTES; so much of it waits for the next block. A
 * document of a split text has at least UNIT_LEAST bytes, and UNIT_MOST without a line end. */
enum { PIECE_BYTES = 1 << 15, WAIT_BYTES = 1 << 17, UNIT_LEAST = 1 << 12, UNIT_MOST = 1 << 20 };

uint64_t text_split_below(double split)
{
    return split >= 1 ? UINT64_MAX : (uint64_t)ldexp(split, 64);
}

uint64_t text_lines(const char *text, size_t n)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    for (const char *p = text; (p = memchr(p, '\r', n - (size_t)(p - text))); p++)
        lines += p + 1 == text + n || p[1] != '\n';
    return lines;
}

int text_piece_add(struct text_block *b, const struct text_piece *p, struct err *err)
{
    int rc = grow(&b->piece, &b->cap_pieces, b->n_pieces + 1, sizeof *b->piece, "pieces of text",
                  err);

    if (!rc)
        b->piece[b->n_pieces++] = *p;
    return rc;
}

/* ---- rows ---- */

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Adds a row, text[from..to), unless it is blank. */
static int row_add(const struct text_cut *c, struct text_block *b, size_t from, size_t to,
                   uint64_t at, struct err *err)
{
    for (size_t mark; (mark = utf8_mark(b->text + from, to - from)) > 0;) // of joined files
        from += mark, at += mark;
    while (from < to && is_blank(b->text[from]))
        from++, at++;
    while (to > from && is_blank(b->text[to - 1]))
        to--;
    if (from == to)
        return 0;
    return text_piece_add(b, &(struct text_piece){ .from = from, .n = to - from, .at = at,
                                                   .line = c->line, .file = c->file,
                                                   .form = TEXT_ROW, .begins = 1, .ends = 1,
                                                   .words = c->words != 0 },
                          err);
}

/* A line ends at \n, or at \r without \n behind it. */
static int lines_cut(struct text_cut *c, struct text_block *b, size_t from, int final,
                     size_t *used, struct err *err)
{
    const char *text = b->text;
    size_t      i = from, newline = 0;
    int         rc = 0;

    while (i < b->n && !rc) {
        if (newline <= i) {
            const char *p = memchr(text + i, '\n', b->n - i);

            newline = p ? (size_t)(p - text) : b->n;
        }
        const char *ret = memchr(text + i, '\r', newline - i);
        size_t      end = newline;

        if (ret && ret + 1 < text + newline)
            end = (size_t)(ret - text);
        else if (newline == b->n && !final)
            break;
        rc = row_add(c, b, i, end, c->at + (i - from), err);
        i = size_min(end + 1, b->n);
        c->line++;
    }
    *used = i - from;
    return rc;
}

/* Where the object that begins at text[i] ends; 0: not before n. *lines: line ends in it. */
static size_t object_end(const char *text, size_t i, size_t n, uint64_t *lines)
{
    size_t depth = 0, from = i;
    int    quoted = 0;

    for (; i < n; i++) {
        char ch = text[i];

        if (quoted) {
            i += ch == '\\';
            quoted = ch != '"';
        } else if (ch == '"') {
            quoted = 1;
        } else if (ch == '{' || ch == '[') {
            depth++;
        } else if ((ch == '}' || ch == ']') && --depth == 0) {
            *lines = text_lines(text + from, i + 1 - from);
            return i + 1;
        }
    }
    return 0;
}

static int list_refuse(const struct text_cut *c, struct err *err)
{
    static const char *const expected[] = {
        [TEXT_LIST_BEFORE] = "a list is expected",
        [TEXT_LIST_FIRST] = "no JSON object, of which a list is expected",
        [TEXT_LIST_NEXT] = "a comma or the list's end is expected between two objects",
        [TEXT_LIST_COMMA] = "no JSON object, of which a list is expected",
        [TEXT_LIST_ENDED] = "something stands behind the list's end",
    };

    return err_misuse(err, "%s:%" PRIu64 ": %s", c->path, c->line, expected[c->list]);
}

/* What the character says of the list, but for an object. Returns whether it belongs there. */
static int list_sign(struct text_cut *c, char ch)
{
    if (ch == '[' && c->list == TEXT_LIST_BEFORE)
        c->list = TEXT_LIST_FIRST;
    else if (ch == ',' && c->list == TEXT_LIST_NEXT)
        c->list = TEXT_LIST_COMMA;
    else if (ch == ']' && (c->list == TEXT_LIST_FIRST || c->list == TEXT_LIST_NEXT))
        c->list = TEXT_LIST_ENDED;
    else
        return 0;
    return 1;
}

static int list_cut(struct text_cut *c, struct text_block *b, size_t from, int final,
                    size_t *used, struct err *err)
{
    const char *text = b->text;
    uint64_t    lines;
    size_t      i = from, end;
    int         rc = 0;

    for (; i < b->n && !rc; i = end) {
        end = i + 1;
        if (is_blank(text[i])) {
            if (text[i] == '\r' && end == b->n && !final)
                break; // whether \n follows matters
            c->line += text[i] == '\n' || (text[i] == '\r' && (end == b->n || text[end] != '\n'));
        } else if (text[i] == '{' && (c->list == TEXT_LIST_FIRST || c->list == TEXT_LIST_COMMA)) {
            if (!(end = object_end(text, i, b->n, &lines))) {
                if (final)
                    rc = err_misuse(err, "%s:%" PRIu64 ": the object that begins here does not "
                                    "end: the file was cut off", c->path, c->line);
                break;
            }
            rc = row_add(c, b, i, end, c->at + (i - from), err);
            c->line += lines;
            c->list = TEXT_LIST_NEXT;
        } else if (!list_sign(c, text[i])) {
            rc = list_refuse(c, err);
        }
    }
    *used = i - from;
    if (!rc && final && i == b->n && c->list != TEXT_LIST_ENDED)
        rc = err_misuse(err, "%s:%" PRIu64 ": the list does not end: the file was cut off",
                        c->path, c->line);
    return rc;
}

/* ---- a text ---- */

static int plain_add(struct text_cut *c, struct text_block *b, size_t from, size_t to, int ends,
                     int held, struct err *err)
{
    struct text_piece p = { .from = from, .n = to - from, .at = c->at, .line = c->line,
                            .file = c->file, .form = TEXT_PLAIN, .begins = !c->begun,
                            .ends = ends != 0, .held_before = c->held != 0,
                            .held_behind = held != 0, .side = c->side != 0,
                            .words = c->words != 0 };
    int               rc = text_piece_add(b, &p, err);

    c->begun = !ends;
    c->held = held;
    c->at += to - from;
    c->line += text_lines(b->text + from, to - from);
    return rc;
}

/* Cuts a part of the document, text[from..to), into pieces. `more`: the document goes on. *used:
 * how far it went: at the end a little may wait for more. */
static int part_cut(struct text_cut *c, struct text_block *b, size_t from, size_t to, int more,
                    size_t *used, struct err *err)
{
    size_t at = from;
    int    rc = 0;

    for (;;) {
        size_t least = c->held ? 1 : PIECE_BYTES;
        size_t n = c->tok && to - at > least && (c->held || to - at > 2 * PIECE_BYTES)
                       ? tokenizer_place(c->tok, b->text + at, to - at, least) : 0;
        if (!n)
            break;
        if ((rc = plain_add(c, b, at, at + n, 0, 0, err)))
            return rc;
        at += n;
    }
    *used = at;
    if (more && !c->held && to - at < WAIT_BYTES)
        return 0;
    *used = to;
    if (more && at == to)
        return 0;
    return plain_add(c, b, at, to, !more, more, err);
}

/* Where the document of a split text that begins at text[from] ends; 0: more text is needed. */
static size_t unit_end(const char *text, size_t from, size_t n, int final)
{
    size_t      most = size_min(n - from, UNIT_MOST);
    const char *p = most > UNIT_LEAST
                        ? memchr(text + from + UNIT_LEAST, '\n', most - UNIT_LEAST) : NULL;

    if (p)
        return (size_t)(p + 1 - text);
    if (most < UNIT_MOST || n - from == UNIT_MOST)
        return final ? n : 0;
    while (((unsigned char)text[from + most] & 0xC0) == 0x80 && most > UNIT_MOST - 4)
        most--; // a character is not cut
    return from + most;
}

/* Documents of one side that follow one another are one, as far as tokens are concerned. Its last
 * part waits until it is known whether the next document is on the same side. */
static int split_cut(struct text_cut *c, struct text_block *b, size_t from, int final,
                     size_t *used, struct err *err)
{
    size_t run = from, last = from, at = from + c->ahead, end;
    int    rc = 0, any = c->ahead > 0;

    while (!rc && at < b->n && (end = unit_end(b->text, at, b->n, final))) {
        int side = hash_bytes(b->text + at, end - at) < c->split;

        if (any && side != c->side) {
            rc = part_cut(c, b, run, at, 0, &run, err);
            assert(rc || run == at);
        }
        c->side = side;
        any = 1;
        last = at;
        at = end;
    }
    if (!rc && final && any)
        rc = part_cut(c, b, run, at, 0, &run, err);
    else if (!rc && last > run)
        rc = part_cut(c, b, run, last, 1, &run, err);
    c->ahead = final ? 0 : at - run;
    *used = run - from;
    return rc;
}

static int plain_cut(struct text_cut *c, struct text_block *b, size_t from, int final,
                     size_t *used, struct err *err)
{
    size_t to = final ? b->n : b->n - utf8_unfinished(b->text + from, b->n - from), end;
    int    rc;

    if (c->split)
        return split_cut(c, b, from, final, used, err);
    rc = part_cut(c, b, from, to, !final, &end, err);
    *used = end - from;
    return rc;
}

int text_cut(struct text_cut *c, struct text_block *b, size_t from, int final, size_t *used,
             struct err *err)
{
    *used = 0;
    if (c->kind == TEXT_KIND_PLAIN) // it counts its own bytes
        return plain_cut(c, b, from, final, used, err);
    int rc = c->kind == TEXT_KIND_LIST ? list_cut(c, b, from, final, used, err)
                                       : lines_cut(c, b, from, final, used, err);

    c->at += *used;
    return rc;
}
