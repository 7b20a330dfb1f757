/* fuzz_rows.c: the contents of a file, cut into lines, objects of a list, or documents: the same in
 * one piece and in steps of any size. A text that json_find_text finds in a row is the one that the
 * parser finds. */
#include "tests/fuzz/fuzz.h"

#include "data/json/json.h"
#include "data/json/json_find.h"
#include "data/base/utf8.h"
#include "run/texts/text_cut.h"

#include <stdlib.h>
#include <string.h>

static void check_row(const char *row, size_t n)
{
    char        *room = malloc(n + 1);
    size_t       found = 0;
    json_error_t e;

    FUZZ_CHECK(room);
    const char *text = json_find_text(row, n, "text", room, &found);
    json_t     *v = text ? json_loadb(row, n, 0, &e) : NULL;

    if (text) {
        const json_t *want = json_object_get(v, "text");

        FUZZ_CHECK(want && json_string_length(want) == found &&
                   !memcmp(json_string_value(want), text, found));
    }
    json_decref(v);
    free(room);
}

/* What a cutting gives, as one string of bytes. */
static void describe(struct fuzz_out *out, const struct text_block *b, int whole)
{
    for (size_t i = 0; i < b->n_pieces; i++) {
        const struct text_piece *p = &b->piece[i];

        if (p->form == TEXT_ROW) {
            fuzz_add_number(out, p->at, 8);
            fuzz_add_number(out, p->line, 8);
            if (whole)
                check_row(b->text + p->from, p->n);
        }
        if (p->begins)
            fuzz_add(out, p->side ? "\1" : "\2", 1);
        fuzz_add(out, b->text + p->from, p->n);
        if (p->ends)
            fuzz_add(out, "\3", 1);
    }
}

static int cut(struct fuzz_out *out, struct text_cut c, const uint8_t *in, size_t n, size_t step,
               struct err *err)
{
    struct text_block b = { .text = malloc(n + 1), .cap = n + 1 };
    size_t            used, kept = 0;
    int               rc = 0, final = 0;

    FUZZ_CHECK(b.text);
    for (size_t at = 0, part; !rc && !final; at += part) {
        part = n - at < step ? n - at : step;
        if (part)
            memcpy(b.text + kept, in + at, part);
        b.n = kept + part;
        b.n_pieces = 0;
        final = at + part == n;
        rc = text_cut(&c, &b, 0, final, &used, err);
        describe(out, &b, step >= n);
        FUZZ_CHECK(used <= b.n && (rc || !final || used == b.n));
        kept = b.n - used;
        memmove(b.text, b.text + used, kept);
    }
    free(b.text);
    free(b.piece);
    return rc;
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in  in = { bytes, n };
    unsigned        how = (unsigned)fuzz_number(&in, 1);
    size_t          step = 1 + (size_t)fuzz_number(&in, 2);
    struct text_cut c = { .kind = (enum text_kind)(how % 3), .path = "in", .line = 1,
                          .split = how & 0x80 ? text_split_below(0.3) : 0 };
    struct fuzz_out whole = { 0 }, steps = { 0 };
    struct err      err = { 0 }, other = { 0 };
    int             why;

    if (c.kind == TEXT_KIND_PLAIN && in.n && utf8_valid((const char *)in.p, in.n, &why) < in.n)
        c.split = 0; // where a character is cut is not defined
    int rc = cut(&whole, c, in.p, in.n, in.n + 1, &err);
    int rc_other = cut(&steps, c, in.p, in.n, step, &other);

    FUZZ_CHECK(rc == rc_other && !strcmp(err.text, other.text) && whole.n == steps.n &&
               (!whole.n || !memcmp(whole.p, steps.p, whole.n)));
    free(whole.p);
    free(steps.p);
    return rc ? fuzz_refused(rc, &err) : 1;
}

static void seed(unsigned how, unsigned step, const char *text)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, how, 1);
    fuzz_add_number(&out, step, 2);
    fuzz_add(&out, text, strlen(text));
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    static const char rows[] =
        "\xEF\xBB\xBF{\"text\": \"a \\\"b\\\" \\u00e9 \\ud83d\\ude00\", "
        "\"n\": [1, -2.5e3, {}]}\r\n\n"
        "{\"m\": {\"text\": \"no\"}, \"text\": \"caf\xC3\xA9\"}\r{\"text\": \"x\"}\n",
        list[] = " [ {\"text\": \"a\\\\\"},\n{\"b\": [true, null], \"text\" : \"}{\"} ]\n";
    char text[20000];

    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = i % 71 == 70 ? '\n' : (char)('a' + i % 23);
    text[sizeof text - 1] = '\0';
    for (unsigned step = 0; step < 30; step += 7) {
        seed(TEXT_KIND_LINES, step, rows);
        seed(TEXT_KIND_LIST, step, list);
        seed(0x80, step * 100, text);
        seed(0x00, step * 100, text);
    }
}

const struct fuzz_target fuzz_rows = { "rows", NULL, one, seeds, (size_t)1 << 20, 200, 2000 };
