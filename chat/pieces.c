/* pieces.c: finds to which message the bytes of a rendered conversation belong. The strings of the
 * variables tell: jinja.h says for each byte from which string it comes. */
#include "chat/pieces.h"

#include "data/base/grow.h"

#include <strings.h>

// owners of text that are no messages: the template; tools, and other variables of the row
#define NOBODY SIZE_MAX
#define TOOLS  (SIZE_MAX - 1)

/* The part of a message that a string is. */
enum owned { OWNED_SAID, OWNED_NAME, OWNED_ROLE };
struct chat_owner {
    const json_t *string; // or the object whose keys are strings
    size_t        message; // or TOOLS
    enum owned    what;
};

void chat_pieces_free(struct chat_pieces *p)
{
    free(p->list);
    free(p->plain);
    free(p->owners);
    *p = (struct chat_pieces){ 0 };
}

/* ---- strings ---- */

static int by_string(const void *a, const void *b)
{
    const struct chat_owner *x = a, *y = b;
    uintptr_t                i = (uintptr_t)x->string, k = (uintptr_t)y->string;

    return i != k ? (i > k) - (i < k) : (x->message > y->message) - (x->message < y->message);
}

/* Adds all strings of v, and its objects, which stand for their keys. */
static int strings_add(struct chat_pieces *p, const json_t *v, size_t message, enum owned what,
                       struct err *err)
{
    struct chat_owner o = { v, message, what };
    const char       *key;
    json_t           *member;
    int               rc = 0;

    if (json_is_string(v) || json_is_object(v))
        rc = grow_add(&p->owners, &p->n_owners, &p->owners_cap, &o, 1, sizeof o, "strings", err);
    for (size_t i = 0; i < json_array_size(v) && !rc; i++)
        rc = strings_add(p, json_array_get(v, i), message, what, err);
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
        rc = rc ? rc : strings_add(p, member, message, what, err);
    return rc;
}

static int owners_find(struct chat_pieces *p, const struct chat_rendering *r, const json_t *kept,
                       struct err *err)
{
    const json_t *messages = json_object_get(kept, "messages");
    const char   *key;
    json_t       *member;
    int           rc = strings_add(p, json_object_get(kept, "tools"), TOOLS, OWNED_SAID, err);

    rc = rc ? rc : strings_add(p, r->variables, TOOLS, OWNED_SAID, err);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        struct chat_owner o = { json_array_get(messages, i), i, OWNED_SAID };

        rc = rc ? rc : grow_add(&p->owners, &p->n_owners, &p->owners_cap, &o, 1, sizeof o,
                                "strings", err);
        json_object_foreach(json_array_get(messages, i), key, member) {
            enum owned what = !strcmp(key, "role")   ? OWNED_ROLE
                              : !strcmp(key, "name") ? OWNED_NAME
                                                     : OWNED_SAID;

            rc = rc ? rc : strings_add(p, member, i, what, err);
        }
    }
    if (p->n_owners)
        qsort(p->owners, p->n_owners, sizeof *p->owners, by_string);
    return rc;
}

/* Returns the owner of a string. *what is set unless that is NOBODY. */
static size_t owner_of(const struct chat_pieces *p, const json_t *string, enum owned *what)
{
    size_t low = 0, high = p->n_owners;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((uintptr_t)p->owners[middle].string < (uintptr_t)string)
            low = middle + 1;
        else
            high = middle;
    }
    if (!string || low == p->n_owners || p->owners[low].string != string)
        return NOBODY;
    *what = p->owners[low].what;
    return p->owners[low].message;
}

/* ---- what the model is asked to go on from ---- */

/* Finds the end of the last byte that comes from a message. */
static int last_owned(size_t *end, const struct jinja_output *text,
                      const struct chat_rendering *r, const json_t *kept, struct err *err)
{
    struct chat_pieces p = { 0 };
    int                rc = owners_find(&p, r, kept, err);

    *end = 0;
    for (size_t i = 0, at = 0; i < text->n_spans && !rc; i++) {
        enum owned what;

        at += text->span[i].bytes;
        if (owner_of(&p, text->span[i].from, &what) != NOBODY)
            *end = at;
    }
    chat_pieces_free(&p);
    return rc;
}

/* Returns the messages before the first answer, or all messages if the answer is the first one. */
static json_t *messages_asking(const json_t *messages)
{
    json_t *out = json_array();
    size_t  n = 0;

    while (n < json_array_size(messages) &&
           strcmp(json_str(json_array_get(messages, n), "role"), "assistant"))
        n++;
    n = n ? n : json_array_size(messages);
    for (size_t i = 0; i < n && out; i++)
        json_array_append(out, json_array_get(messages, i));
    return out;
}

int chat_cue_find(struct chat_cue *cue, const struct chat_template *t,
                  const struct chat_rendering *r, struct err *err)
{
    struct chat_rendering asking = *r;
    struct jinja_output   with = { 0 }, without = { 0 };
    json_t               *kept[2] = { NULL }, *messages = messages_asking(r->messages);
    struct err            ignored;
    size_t                end = 0;

    *cue = (struct chat_cue){ 0 };
    if (!messages)
        return err_set(err, -ENOMEM, "no memory for messages");
    asking.messages = messages;
    asking.generation_prompt = 1;
    // a template may refuse this, and yet write conversations
    int rc = chat_template_render(t, &asking, &with, &kept[0], &ignored);
    int refused = rc != 0;

    rc = rc == -ENOMEM ? err_set(err, rc, "%s", ignored.text) : 0;
    if (!refused)
        rc = last_owned(&end, &with, &asking, kept[0], err);
    asking.generation_prompt = 0;
    if (!refused && !rc && chat_template_render(t, &asking, &without, &kept[1], &ignored) == 0 &&
        without.bytes >= end && without.bytes <= with.bytes &&
        !memcmp(without.text, with.text, without.bytes))
        cue->asked = with.bytes - without.bytes;
    if (!refused && !rc) {
        cue->n = with.bytes - end;
        cue->text = malloc(cue->n + 1);
        if (!cue->text)
            rc = err_set(err, -ENOMEM, "no memory for %zu bytes of text", cue->n);
        else
            memcpy(cue->text, with.text + end, cue->n);
    }
    jinja_output_free(&with);
    jinja_output_free(&without);
    json_decref(kept[0]);
    json_decref(kept[1]);
    json_decref(messages);
    return rc;
}

/* Whether a text names the assistant, as the text before a turn may. */
static int names_assistant(const char *text, size_t n)
{
    static const char name[] = "assistant";
    size_t            len = sizeof name - 1;

    for (size_t i = 0; i + len <= n; i++)
        if (!strncasecmp(text + i, name, len))
            return 1;
    return 0;
}

/* Whether there is more than white space. White space occurs anywhere, and tells nothing. */
static int says_something(const char *text, size_t n)
{
    while (n && strchr(" \n\t\r", text[n - 1]))
        n--;
    return n > 0;
}

/* Returns the end of the first what[0..n) in text[from..to), or SIZE_MAX if it does not occur. The
 * name of the turn must not follow it. */
static size_t place_end(const char *text, size_t from, size_t to, const char *what, size_t n)
{
    const char *at = n ? memmem(text + from, to - from, what, n) : NULL;
    size_t      end = at ? (size_t)(at - text) + n : SIZE_MAX;

    return at && !names_assistant(text + end, to - end) ? end : SIZE_MAX;
}

/* Returns the place in text[from..to) at which an answer begins, behind the cue, or SIZE_MAX if the
 * cue does not occur. A template may write more when it asks than before this answer ("<think>\n").
 * Then the answer begins behind the part of the cue that occurs, up to a line or a tag. A template
 * that does not know add_generation_prompt may write the name of the turn behind the cue. */
static size_t cue_end(const struct chat_cue *cue, const char *text, size_t from, size_t to)
{
    const char *asked = cue->n ? cue->text + cue->n - cue->asked : NULL;
    size_t      end = SIZE_MAX;

    if (cue->n && says_something(cue->text, cue->n))
        end = place_end(text, from, to, cue->text, cue->n);
    else if (cue->n && to - from >= cue->n && !memcmp(text + from, cue->text, cue->n))
        end = from + cue->n;
    for (size_t n = cue->asked; n > 0 && end == SIZE_MAX; n--)
        if (n == cue->asked || asked[n - 1] == '\n' || asked[n - 1] == '>')
            end = place_end(text, from, to, asked, n);
    return end;
}

/* ---- pieces by origin ---- */

/* A run of text of one message, with the template's text within. */
struct run {
    size_t message;
    size_t before;    // end of the text of the run before it
    size_t from, to;  // its text without role and name; from SIZE_MAX: none yet
    size_t owned_end; // its last byte of any kind
};

static int piece_add(struct chat_pieces *p, const struct chat_piece *piece, struct err *err)
{
    return grow_add(&p->list, &p->n, &p->cap, piece, 1, sizeof *piece, "pieces of messages", err);
}

static int is_assistant(const json_t *kept, size_t message)
{
    return !strcmp(json_str(json_array_get(json_object_get(kept, "messages"), message), "role"),
                   "assistant");
}

/* Ends a run: the text from `limit` on is another owner's. */
static int run_end(struct chat_pieces *p, const struct run *r, const char *text,
                   const json_t *kept, const struct chat_cue *cue, size_t limit, struct err *err)
{
    int               assistant = r->message < TOOLS && is_assistant(kept, r->message);
    size_t            said = r->from == SIZE_MAX ? limit : r->from;
    size_t            answer = assistant ? cue_end(cue, text, r->before, said) : SIZE_MAX;
    struct chat_piece piece = { .from = answer == SIZE_MAX ? r->from : answer, .to = r->to,
                                .limit = limit, .message = r->message, .assistant = assistant };

    if (r->message >= TOOLS || piece.from == SIZE_MAX)
        return 0;
    if (r->from == SIZE_MAX)
        piece.to = piece.from;
    return piece_add(p, &piece, err);
}

static int pieces_by_origin(struct chat_pieces *p, const struct jinja_output *text,
                            const json_t *kept, const struct chat_cue *cue, struct err *err)
{
    struct run r = { .message = NOBODY };
    int        rc = 0;

    for (size_t i = 0, at = 0; i < text->n_spans && !rc; at += text->span[i++].bytes) {
        enum owned what;
        size_t     owner = owner_of(p, text->span[i].from, &what);
        size_t     end = at + text->span[i].bytes;

        if (owner == NOBODY)
            continue;
        if (owner != r.message) {
            rc = run_end(p, &r, text->text, kept, cue, at, err);
            r = (struct run){ owner, r.owned_end, SIZE_MAX, 0, 0 };
        }
        r.owned_end = end;
        if (what == OWNED_SAID) {
            r.from = r.from == SIZE_MAX ? at : r.from;
            r.to = end;
        }
    }
    return rc ? rc : run_end(p, &r, text->text, kept, cue, text->bytes, err);
}

/* ---- pieces by {% generation %} ---- */

/* Returns the message of the generated text from span `i` on: the message that the text comes from,
 * otherwise the next answer behind the text before it. */
static size_t generated_message(const struct chat_pieces *p, const struct jinja_output *text,
                                const json_t *kept, size_t i, size_t before)
{
    size_t     n = json_array_size(json_object_get(kept, "messages"));
    enum owned what;

    for (; i < text->n_spans && text->span[i].generation; i++) {
        size_t owner = owner_of(p, text->span[i].from, &what);

        if (owner < TOOLS)
            return owner;
    }
    for (before = before < TOOLS ? before : 0; before < n; before++)
        if (is_assistant(kept, before))
            return before;
    return n - 1;
}

/* Replaces the pieces of assistants. All other messages keep their pieces by origin. */
static int pieces_by_generation(struct chat_pieces *p, const struct jinja_output *text,
                                const json_t *kept, struct err *err)
{
    size_t            n = 0, before = NOBODY;
    struct chat_piece piece = { .assistant = 1 };
    int               rc = 0, open = 0;

    for (size_t i = 0; i < p->n; i++)
        if (!p->list[i].assistant)
            p->list[n++] = p->list[i];
    p->n = n;
    for (size_t i = 0, at = 0; i < text->n_spans && !rc; at += text->span[i++].bytes) {
        enum owned what;
        size_t     owner = owner_of(p, text->span[i].from, &what);

        if (text->span[i].generation && !open) {
            piece.from = at;
            piece.message = generated_message(p, text, kept, i, before);
        }
        before = owner < TOOLS ? owner : before;
        open = text->span[i].generation;
        piece.to = piece.limit = at + text->span[i].bytes;
        if (open && (i + 1 == text->n_spans || !text->span[i + 1].generation))
            rc = piece_add(p, &piece, err);
    }
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct chat_piece *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

/* ---- all ---- */

/* Finds the text that comes from the row. Roles are left out: templates write "<|" and a role and
 * "|>", and all roles are known words. */
static int plain_find(struct chat_pieces *p, const struct jinja_output *text, struct err *err)
{
    int rc = 0;

    for (size_t i = 0, at = 0; i < text->n_spans && !rc; at += text->span[i++].bytes) {
        enum owned         what = OWNED_ROLE;
        struct token_span  span = { at, at + text->span[i].bytes };
        struct token_span *last = p->n_plain ? &p->plain[p->n_plain - 1] : NULL;

        if (owner_of(p, text->span[i].from, &what) == NOBODY || what == OWNED_ROLE)
            continue;
        if (last && last->to == at)
            last->to = span.to;
        else
            rc = grow_add(&p->plain, &p->n_plain, &p->plain_cap, &span, 1, sizeof span,
                          "pieces of messages", err);
    }
    return rc;
}

int chat_pieces_find(struct chat_pieces *p, const struct jinja_output *text,
                     const struct chat_rendering *r, const json_t *kept,
                     const struct chat_cue *cue, int marks, struct err *err)
{
    p->n = p->n_plain = p->n_owners = 0;
    int rc = owners_find(p, r, kept, err);

    rc = rc ? rc : plain_find(p, text, err);
    rc = rc ? rc : pieces_by_origin(p, text, kept, cue, err);
    if (marks)
        rc = rc ? rc : pieces_by_generation(p, text, kept, err);
    if (!rc && p->n)
        qsort(p->list, p->n, sizeof *p->list, by_place);
    return rc;
}
