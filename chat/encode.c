/* encode.c: encodes the text of a row, and marks the ids that count. */
#include "chat/encode.h"

#include "chat/pieces.h"
#include "chat/signs.h"
#include "data/base/grow.h"
#include "data/base/table.h"

TABLE_WORDS(chat_loss_name, [CHAT_LOSS_ANSWERS] = "answers", [CHAT_LOSS_LAST] = "last",
            [CHAT_LOSS_ALL] = "all")

void chat_ids_free(struct chat_ids *x)
{
    token_buf_free(&x->ids);
    free(x->counts);
    *x = (struct chat_ids){ 0 };
}

static int counts_room(struct chat_ids *x, struct err *err)
{
    return grow(&x->counts, &x->counts_cap, x->ids.n, 1, "tokens", err);
}

static void spelled_take(struct chat_ids *x, const struct token_spans *s)
{
    x->spelled = s->spelled;
    x->spelled_id = s->spelled_id;
}

/* ---- rows without turns ---- */

/* Encodes a prompt and its completion, which are one text. prompt: bytes of the first. */
static int encode_joined(const struct chat_encoding *e, const char *text, size_t prompt,
                         struct chat_ids *out, struct err *err)
{
    struct token_span   all = { 0, strlen(text) };
    struct token_source source = { text, all.to, &all, e->special_in_text ? 0 : 1 };
    struct token_spans  spans = { 0 };
    size_t              first = 0;
    int32_t             end = tokenizer_endoftext(e->tok);
    int                 rc = tokenizer_put(e->tok, TOKENIZER_BEFORE, &out->ids, err);

    rc = rc ? rc : tokenizer_encode_spans(e->tok, &source, &out->ids, &spans, err);
    first = rc ? 0 : tokenizer_begin_once(e->tok, &out->ids);
    spelled_take(out, &spans);
    int ended = out->ids.n > first && out->ids.ids[out->ids.n - 1] == end;

    if (!rc && end >= 0 && !ended)
        rc = token_buf_add(&out->ids, &end, 1, err);
    rc = rc ? rc : counts_room(out, err);
    for (size_t i = 0; i < out->ids.n && !rc; i++) {
        const struct token_span *s = i < first || i >= first + spans.n ? NULL
                                                                       : &spans.list[i - first];
        int behind = i >= first + spans.n || (s && s->to > prompt);

        out->counts[i] = behind || e->loss == CHAT_LOSS_ALL;
        if (s && s->from < prompt && s->to > prompt)
            out->signs |= CHAT_JOINED;
    }
    token_spans_free(&spans);
    return rc;
}

static int encode_texts(const struct chat_encoding *e, const char *prompt, const char *completion,
                        struct chat_ids *out, struct err *err)
{
    char *text;

    if (asprintf(&text, "%s%s", prompt, completion) < 0)
        return err_set(err, -ENOMEM, "no memory for the text of a row");
    int rc = encode_joined(e, text, strlen(prompt), out, err);

    out->signs |= chat_is_blank(completion) ? CHAT_EMPTY : 0;
    free(text);
    return rc;
}

/* ---- rows with turns ---- */

/* The state while a conversation is encoded. */
struct marking {
    const struct chat_encoding *e;
    const struct chat_turns    *turns;
    struct jinja_output         text;
    json_t                     *kept;
    struct chat_cue             cue;
    struct chat_pieces          pieces;
    struct token_spans          spans;
    size_t                      last; // message of the last assistant
};

static int piece_counts(const struct marking *m, const struct chat_piece *p)
{
    enum chat_counts said = m->turns->counts[p->message];

    if (m->e->loss == CHAT_LOSS_ALL)
        return said != CHAT_NEVER;
    if (said != CHAT_BY_ROLE)
        return said == CHAT_ALWAYS;
    return p->assistant && (m->e->loss == CHAT_LOSS_ANSWERS || p->message == m->last);
}

/* Returns the end of the text that closes a turn, for turns that no token closes. */
static size_t closing_text(const struct marking *m, const struct chat_piece *p)
{
    const struct chat_piece *last = &m->pieces.list[m->pieces.n - 1];
    const char              *text = m->text.text;
    size_t                   n = 0;

    if (p->limit == p->to || !last->assistant || last->limit != m->text.bytes)
        return p->to;
    while (p->to + n < p->limit && last->to + n < last->limit &&
           text[p->to + n] == text[last->to + n])
        n++;
    return p->to + n;
}

/* Returns the first token behind those that close the piece's turn. `i` is the first token that
 * begins behind the text of the message. */
static size_t closing_end(const struct marking *m, const struct chat_piece *p,
                          const struct chat_ids *out, size_t i)
{
    const struct token_span *s = m->spans.list;
    size_t                   control = SIZE_MAX, k;
    int32_t                  end = tokenizer_endoftext(m->e->tok);

    for (k = i; k < m->spans.n && s[k].to <= p->limit; k++) {
        if (out->ids.ids[k] == end)
            return k + 1;
        if (control == SIZE_MAX && tokenizer_is_control(m->e->tok, out->ids.ids[k]))
            control = k;
    }
    if (control != SIZE_MAX)
        return control + 1;
    size_t text_end = closing_text(m, p);

    while (i < m->spans.n && s[i].from < text_end)
        i++;
    return i;
}

/* Marks the tokens of a piece with `value`. No piece from here on begins before token *at. */
static void piece_mark(const struct marking *m, const struct chat_piece *p, struct chat_ids *out,
                       size_t *at, unsigned char value)
{
    const struct token_span *s = m->spans.list;
    size_t                   i, end;

    while (*at < m->spans.n && s[*at].to <= p->from)
        ++*at;
    i = *at;
    // a token of the template that has taken white space of the answer along
    while (i < m->spans.n && s[i].from < p->from &&
           tokenizer_is_control(m->e->tok, out->ids.ids[i]))
        i++;
    for (end = i; end < m->spans.n && s[end].from < p->to;)
        end++;
    if (p->limit > p->to)
        end = closing_end(m, p, out, end);
    for (; i < end; i++)
        out->counts[i] = value;
}

/* Whether a key of an object is in the text as Python writes one, in single quotes. */
static int writes_key(const struct jinja_output *text, const json_t *object)
{
    size_t at = 0, i = 0;

    while (i < text->n_spans &&
           (text->span[i].from != object || !at || text->text[at - 1] != '\''))
        at += text->span[i++].bytes;
    return i < text->n_spans;
}

/* Refuses a text in which a list of parts stands as Python writes one, "[{'type': 'text', ...": the
 * template wants a text there. A template that writes the list as JSON is not refused: Llama's
 * write a tool's answer so. */
static int refuse_written_parts(const struct marking *m, struct err *err)
{
    const json_t *messages = json_object_get(m->kept, "messages"), *message, *part;
    size_t        i, k;

    json_array_foreach(messages, i, message)
        json_array_foreach(json_object_get(message, "content"), k, part)
            if (writes_key(&m->text, part))
                return err_misuse(err, "the \"content\" of message %zu is a list of parts, and "
                                  "the chat template takes texts alone: it writes the list itself, "
                                  "not what it says; give a text", i + 1);
    return 0;
}

static int conversation_read(struct marking *m, const struct chat_rendering *r, struct err *err)
{
    int rc = chat_template_render(m->e->chat, r, &m->text, &m->kept, err);
    int marks = chat_template_marks(m->e->chat, r->tools);

    rc = rc ? rc : refuse_written_parts(m, err);
    rc = rc || marks ? rc : chat_cue_find(&m->cue, m->e->chat, r, err);
    return rc ? rc : chat_pieces_find(&m->pieces, &m->text, r, m->kept, &m->cue, marks, err);
}

static int encode_marked(struct marking *m, struct chat_ids *out, struct err *err)
{
    struct token_source source = { m->text.text, m->text.bytes, m->pieces.plain,
                                   m->e->special_in_text ? 0 : m->pieces.n_plain };
    int                 all = m->e->loss == CHAT_LOSS_ALL;
    int                 rc = tokenizer_encode_spans(m->e->tok, &source, &out->ids, &m->spans, err);

    rc = rc ? rc : counts_room(out, err);
    if (rc || !out->ids.n) // a template may write nothing
        return rc;
    spelled_take(out, &m->spans);
    memset(out->counts, all, out->ids.n);
    for (size_t i = 0, at = 0; i < m->pieces.n; i++) {
        int counts = piece_counts(m, &m->pieces.list[i]);

        if (counts != all)
            piece_mark(m, &m->pieces.list[i], out, &at, (unsigned char)counts);
    }
    return 0;
}

static int encode_turns(const struct chat_encoding *e, const struct chat_row *row,
                        const struct chat_turns *turns, struct chat_ids *out, struct err *err)
{
    struct chat_rendering r = { .messages = turns->messages, .tools = row->tools,
                                .variables = row->variables, .now = e->now,
                                .memory = e->memory };
    struct marking        m = { .e = e, .turns = turns, .last = SIZE_MAX };
    struct err            why;

    if (!e->chat)
        return err_misuse(err, "%s:%zu: a conversation needs a chat template, and the model's "
                          "folder has none: --chat-template FILE gives one (examples/chat.sh "
                          "writes one)", row->path, row->line);
    for (size_t i = 0; i < json_array_size(turns->messages); i++)
        if (!strcmp(json_str(json_array_get(turns->messages, i), "role"), "assistant"))
            m.last = i;
    int rc = conversation_read(&m, &r, &why);

    rc = rc ? rc : encode_marked(&m, out, &why);
    if (!rc)
        out->signs = chat_signs(turns, row->tools, &m.text,
                                e->loss == CHAT_LOSS_LAST ? m.last : 0);
    jinja_output_free(&m.text);
    json_decref(m.kept);
    free(m.cue.text);
    chat_pieces_free(&m.pieces);
    token_spans_free(&m.spans);
    if (!rc)
        return 0;
    if (row->line)
        err_set(err, rc, "%s:%zu: %s", row->path, row->line, why.text);
    else // the conversation is not from a file
        *err = why;
    err->misuse = why.misuse;
    return rc;
}

/* ---- both ---- */

static int encode_one(const struct chat_encoding *e, const struct chat_row *row, int second,
                      struct chat_ids *out, struct err *err)
{
    int rc;

    out->ids.n = out->counted = out->signs = 0;
    if (row->has_turns)
        rc = encode_turns(e, row, second ? &row->other_turns : &row->turns, out, err);
    else
        rc = encode_texts(e, row->prompt, second ? row->other : row->completion, out, err);
    for (size_t i = 0; i < out->ids.n && !rc; i++)
        out->counted += out->counts[i];
    return rc;
}

int chat_encode(const struct chat_encoding *e, const struct chat_row *row, struct chat_ids *out,
                struct chat_ids *other, struct err *err)
{
    int rc = encode_one(e, row, 0, out, err);

    return rc || row->form != CHAT_FORM_PREFERENCE ? rc : encode_one(e, row, 1, other, err);
}
