/* tokenizer_added.c: collects the added tokens of a folder, and their ids.
 *
 * Several files may name them: tokenizer.json (added_tokens), tokenizer_config.json
 * (added_tokens_decoder, and bos_token and the like), special_tokens_map.json and
 * added_tokens.json. This follows transformers: a later file adds to an earlier one. The two old
 * files count only if tokenizer_config.json has no added_tokens_decoder. A token that is named
 * again takes the flags of its last naming. Ids are not taken from the files: a token of the
 * vocabulary keeps its own, every other one gets the next. A file that says otherwise is refused,
 * because its model was trained with the ids in it. */
#include "data/text/tokenizer_gguf.h"
#include "data/base/table.h"
#include "data/text/tokenizer_parts.h"

#include "data/file/file.h"
#include "data/base/grow.h"
#include "data/json/json.h"
#include "data/text/unicode.h"

#define MAX_ADDED 8192u
enum { COMPANION_BYTES = 64 << 20 };

/* Names of single tokens, then of lists of tokens. */
static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token",
                                     "additional_special_tokens", "extra_special_tokens" };
enum { NAMES = sizeof names / sizeof *names, LISTS = 2 };

struct adding {
    struct added_tokens *to;
    const json_t        *vocab;
    const char          *path; // the file being read
};

/* ---- one token ---- */

struct added_token *added_tokens_find(const struct added_tokens *a, const char *content)
{
    return (struct added_token *)(uintptr_t)table_find(a->list, a->n, sizeof *a->list, content);
}

const char *tokenizer_role_name(const json_t *roles, const char *role)
{
    return token_content(json_object_get(roles, role));
}

static json_int_t next_id(const struct adding *s, const char *content)
{
    const json_t *known = json_object_get(s->vocab, content);
    json_int_t    next = (json_int_t)json_object_size(s->vocab);

    if (known)
        return json_integer_value(known);
    for (size_t i = 0; i < s->to->n; i++)
        if (s->to->list[i].id >= next)
            next = s->to->list[i].id + 1;
    return next;
}

/* Adds what one file says about a token. Its id is -1 if the file does not say it. */
static int token_add(struct adding *s, const struct added_token *said, struct err *err)
{
    struct added_tokens *a = s->to;
    struct added_token  *t = added_tokens_find(a, said->content);
    json_int_t           id = t ? t->id : next_id(s, said->content);

    if (said->id >= 0 && said->id != id)
        return err_misuse(err, "%s: added token %.100s has the id %lld, but by its place in the "
                          "vocabulary it has %lld", s->path, said->content, (long long)said->id,
                          (long long)id);
    if (t) {
        const char *content = t->content;

        *t = *said;
        t->content = content;
        t->id = id;
        return 0;
    }
    if (a->n == MAX_ADDED)
        return err_misuse(err, "%s: more than %u added tokens", s->path, MAX_ADDED);
    const char *copy = strdup(said->content);

    if (!copy || grow(&a->list, &a->cap, a->n + 1, sizeof *a->list, "added tokens", err)) {
        free((char *)(uintptr_t)copy);
        return err_set(err, -ENOMEM, "no memory for the added tokens of %s", s->path);
    }
    a->list[a->n] = *said;
    a->list[a->n].content = copy;
    a->list[a->n++].id = id;
    return 0;
}

/* Reads a token: a string, or an object with content and flags. `special`: it is special, whatever
 * its flag says. */
static int token_read(const struct adding *s, struct added_token *out, const json_t *v, int special,
                      struct err *err)
{
    const char *content = token_content(v);

    if (!content || !*content)
        return err_misuse(err, "%s: an added token has no content", s->path);
    static const struct { const char *name; size_t at; } flags[] = {
        { "special", offsetof(struct added_token, special) },
        { "lstrip", offsetof(struct added_token, lstrip) },
        { "rstrip", offsetof(struct added_token, rstrip) },
        { "single_word", offsetof(struct added_token, single_word) },
        { "normalized", offsetof(struct added_token, normalized) },
    };
    *out = (struct added_token){ .content = content, .id = -1 };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const json_t *said = json_object_get(v, flags[i].name);

        if (said && !json_is_null(said) && !json_is_boolean(said))
            return err_misuse(err, "%s: added token %.100s sets %s to what is no true or false",
                              s->path, content, flags[i].name);
        *(int *)(void *)((char *)out + flags[i].at) = json_is_true(said);
    }
    out->special |= special;
    if (!json_object_get(v, "normalized"))
        out->normalized = !out->special;
    return 0;
}

static int token_by_id(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

/* ---- the files ---- */

/* Adds the array of objects with ids, in order, of tokenizer.json. */
static int array_add(struct adding *s, const json_t *added, struct err *err)
{
    int rc = 0;

    if (added && !json_is_null(added) && !json_is_array(added))
        return err_misuse(err, "%s: \"added_tokens\" must be a list", s->path);
    for (size_t i = 0; i < json_array_size(added) && !rc; i++) {
        const json_t      *v = json_array_get(added, i), *id = json_object_get(v, "id");
        struct added_token what;

        rc = token_read(s, &what, v, 0, err);
        if (!rc && (!json_is_integer(id) || json_integer_value(id) < 0))
            rc = err_misuse(err, "%s: added token %.100s has no id", s->path, what.content);
        what.id = json_integer_value(id);
        rc = rc ? rc : token_add(s, &what, err);
    }
    return rc;
}

/* Whether bos_token or the like, or a list of tokens, names this content. */
static int is_named(const json_t *named, const char *content)
{
    const json_t *v;
    const char   *key;

    json_object_foreach((json_t *)named, key, v) {
        for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
            const char *c = token_content(json_is_array(v) ? json_array_get(v, i) : v);

            if (c && !strcmp(c, content))
                return 1;
        }
    }
    return 0;
}

/* Adds the tokens of added_tokens_decoder, {"50257": {content, flags}}, or of added_tokens.json,
 * {"content": 50257}, in the order of ids. */
static int object_add(struct adding *s, const json_t *object, const json_t *named, struct err *err)
{
    size_t         n = 0, size = json_object_size(object);
    struct added_token *all = calloc(size + 1, sizeof *all);
    const char    *key;
    const json_t  *v;
    int rc = all ? 0 : err_set(err, -ENOMEM, "no memory for the added tokens of %s", s->path);

    json_object_foreach((json_t *)object, key, v) {
        struct added_token *what = all + n++;
        char          *end = NULL;

        if (rc)
            break;
        if (json_is_integer(v)) {
            int special = is_named(named, key);

            *what = (struct added_token){ .content = key, .id = json_integer_value(v),
                                          .normalized = !special, .special = special };
        } else {
            rc = token_read(s, what, v, 0, err);
            what->id = strtoll(key, &end, 10);
        }
        if (!rc && (what->id < 0 || !*what->content || (end && (end == key || *end))))
            rc = err_misuse(err, "%s: added token %.100s has no id", s->path, what->content);
    }
    if (!rc)
        qsort(all, n, sizeof *all, token_by_id);
    for (size_t i = 0; i < n && !rc; i++)
        rc = token_add(s, &all[i], err);
    free(all);
    return rc;
}

/* Makes a named token special. Its other flags stay. */
static int special_add(struct adding *s, const json_t *v, struct err *err)
{
    struct added_token what, *known;

    if (!v || json_is_null(v))
        return 0;
    int rc = token_read(s, &what, v, 1, err);

    known = rc ? NULL : added_tokens_find(s->to, what.content);
    if (known)
        known->special = 1;
    return rc || known ? rc : token_add(s, &what, err);
}

/* Adds one value, or all of an object's: Gemma 3's lists are {"image_token": "<image>"}. */
static int singles_add(struct adding *s, const json_t *v, int list, struct err *err)
{
    const char *role;
    json_t     *named;
    int         rc = list ? 0 : special_add(s, v, err);

    json_object_foreach((json_t *)(uintptr_t)(list ? v : NULL), role, named)
        rc = rc ? rc : special_add(s, named, err);
    return rc;
}

static int named_add(struct adding *s, const json_t *named, struct err *err)
{
    int rc = 0;

    for (size_t k = 0; k < NAMES && !rc; k++)
        rc = singles_add(s, json_object_get(named, names[k]), k >= NAMES - LISTS, err);
    for (size_t k = NAMES - LISTS; k < NAMES; k++) {
        const json_t *v = json_object_get(named, names[k]);

        for (size_t i = 0; i < json_array_size(v) && !rc; i++)
            rc = special_add(s, json_array_get(v, i), err);
    }
    return rc;
}

/* ---- the folder ---- */

int tokenizer_companion(json_t **out, char **path, const char *dir, const char *name,
                        struct err *err)
{
    char *at = file_path(err, "%s/%s", dir, name);
    int   rc = at ? 0 : -ENOMEM;

    *out = NULL;
    if (!rc && tokenizer_gguf_is(dir)) // it has what this one file of a folder says
        rc = strcmp(name, "tokenizer_config.json") ? 0 : tokenizer_gguf_read(NULL, out, dir, err);
    else if (!rc && (rc = file_exists(at, err)) > 0)
        rc = json_read_object(out, at, COMPANION_BYTES, err);
    if (path)
        *path = at;
    else
        free(at);
    return rc;
}

/* Replaces the values in `named` by those in `from`. */
static void named_take(json_t *named, const json_t *from)
{
    for (size_t i = 0; i < NAMES; i++)
        json_object_set(named, names[i], json_object_get(from, names[i])); // NULL sets nothing
}

/* Adds the tokens of three parsed files, each NULL if it is missing. */
static int companions_add(struct adding *s, char *paths[3], const json_t *const files[3],
                          json_t *named, struct err *err)
{
    const json_t *decoder = json_object_get(files[0], "added_tokens_decoder");
    int           rc;

    s->path = paths[0];
    named_take(named, files[0]);
    if (decoder) {
        rc = object_add(s, decoder, named, err);
    } else {
        named_take(named, files[1]);
        s->path = paths[2];
        rc = object_add(s, files[2], named, err);
        s->path = paths[files[1] ? 1 : 0];
    }
    return rc ? rc : named_add(s, named, err);
}

/* Refuses tokens of which one takes along white space behind it and another begins with white
 * space. */
static int spaces_check(const struct added_tokens *a, const char *path, struct err *err)
{
    const struct added_token *takes = NULL, *begins = NULL;

    for (size_t i = 0; i < a->n; i++) { // without tokens there is no list
        const struct added_token *t = &a->list[i];

        takes = t->rstrip ? t : takes;
        begins = unicode_spaces(t->content, strlen(t->content)) ? t : begins;
    }
    return !takes || !begins
               ? 0
               : err_misuse(err, "%s: added token %.100s sets rstrip, which is not known beside "
                            "one that begins with white space, as \"%.100s\" does", path,
                            takes->content, begins->content);
}

int added_tokens_read(struct added_tokens *a, const struct added_from *from, struct err *err)
{
    static const char *const others[3] = { "tokenizer_config.json", "special_tokens_map.json",
                                           "added_tokens.json" };
    struct adding s = { a, from->vocab, from->path };
    json_t       *map = NULL, *ids = NULL, *named = json_object();
    char         *paths[3] = { NULL };
    int           rc = named ? 0 : err_set(err, -ENOMEM, "no memory to read %s", from->path);

    rc = rc ? rc : array_add(&s, json_object_get(from->root, "added_tokens"), err);
    named_take(named, from->roles);
    for (size_t i = 0; i < 3 && !rc; i++)
        rc = (paths[i] = file_path(err, "%s/%s", from->dir, others[i])) ? 0 : -ENOMEM;
    rc = rc ? rc : tokenizer_companion(&map, NULL, from->dir, others[1], err);
    rc = rc ? rc : tokenizer_companion(&ids, NULL, from->dir, others[2], err);
    rc = rc ? rc
            : companions_add(&s, paths, (const json_t *const[]){ from->config, map, ids }, named,
                             err);
    rc = rc ? rc : spaces_check(a, from->path, err);
    a->roles = named;
    json_decref(map);
    json_decref(ids);
    for (size_t i = 0; i < 3; i++)
        free(paths[i]);
    return rc;
}

void added_tokens_free(struct added_tokens *a)
{
    for (size_t i = 0; i < a->n; i++)
        free((char *)(uintptr_t)a->list[i].content);
    free(a->list);
    json_decref(a->roles);
    *a = (struct added_tokens){ 0 };
}
