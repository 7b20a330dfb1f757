/* template.c: reads the chat templates of a folder, and renders conversations, as transformers 5
 * does: files come before settings, templates have names, special tokens have roles, and messages
 * are changed as its apply_chat_template changes them. */
#include "chat/template.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/file/file_kind.h"
#include "data/base/table.h"
#include "data/base/utf8.h"
#include "data/text/tokenizer.h"

#include <dirent.h>
#include <unistd.h>

enum { TEMPLATE_MOST = 1 << 20, TEMPLATES_MOST = 64 };

struct named { char *name, *text; struct jinja *jinja; };
struct chat_template {
    struct named list[TEMPLATES_MOST];
    size_t       n;
    int          chosen;  // the caller named it, and `list` has no other
    int          is_file; // the caller named a file
    json_t      *tokens; // special tokens by role
};

/* ---- reading */

/* Adds a template. `where` names its file, for sentences. */
static int add(struct chat_template *t, const char *name, const char *text, size_t n,
               const char *where, struct err *err)
{
    struct named *one = &t->list[t->n];
    int           why;
    size_t        valid = n ? utf8_valid(text, n, &why) : 0;

    if (t->n == TEMPLATES_MOST)
        return err_misuse(err, "%s: more than %d chat templates", where, TEMPLATES_MOST);
    if (n > TEMPLATE_MOST)
        return err_misuse(err, "%s: a chat template of more than %d bytes", where, TEMPLATE_MOST);
    if (valid < n || memchr(text, 0, n))
        return err_misuse(err, "%s is not a chat template: it is not UTF-8 without NUL bytes",
                          where);
    if (table_find(t->list, t->n, sizeof *t->list, name))
        return err_misuse(err, "%s: two chat templates are named \"%.60s\"", where, name);
    *one = (struct named){ .name = strdup(name), .text = strndup(text, n) };
    t->n++;
    if (!one->name || !one->text)
        return err_set(err, -ENOMEM, "no memory for a chat template");
    return jinja_parse(&one->jinja, text, n, where, err);
}

static int add_file(struct chat_template *t, const char *name, const char *path, struct err *err)
{
    char  *text;
    size_t n;
    int    rc = file_read_whole(&text, &n, path, TEMPLATE_MOST, err);

    rc = rc ? rc : file_kind_check_bytes(text, n, path, FILE_FOR_TEMPLATE, err);
    rc = rc ? rc : add(t, name, text, n, path, err);
    free(text);
    return rc;
}

static int is_template(const struct dirent *d)
{
    size_t n = strlen(d->d_name);

    return n > 6 && !strcmp(d->d_name + n - 6, ".jinja");
}

static int add_folder(struct chat_template *t, const char *dir, struct err *err)
{
    char           *folder = file_path(err, "%s/additional_chat_templates", dir);
    struct dirent **entry = NULL;
    int             n = folder ? scandir(folder, &entry, is_template, alphasort) : 0;
    int             rc = folder ? 0 : -ENOMEM;

    if (n < 0 && errno != ENOENT && errno != ENOTDIR)
        rc = err_set(err, -errno, "open %s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char *path = rc ? NULL : file_path(err, "%s/%s", folder, entry[i]->d_name);

        if (!rc && !path)
            rc = -ENOMEM;
        entry[i]->d_name[strlen(entry[i]->d_name) - strlen(".jinja")] = 0;
        rc = rc ? rc : add_file(t, entry[i]->d_name, path, err);
        free(path);
        free(entry[i]);
    }
    free(entry);
    free(folder);
    return rc;
}

/* Adds chat_template of a JSON file: a text, {name: text}, or [{name, template}]. */
static int add_value(struct chat_template *t, const json_t *v, const char *path, struct err *err)
{
    const char *name;
    json_t     *one;
    size_t      i;
    int         rc = 0;

    if (json_is_string(v))
        return add(t, "default", json_string_value(v), json_string_length(v), path, err);
    json_object_foreach((json_t *)(uintptr_t)v, name, one) {
        if (!json_is_string(one))
            return err_misuse(err, "%s: the chat template \"%.60s\" is not a text", path, name);
        if ((rc = add(t, name, json_string_value(one), json_string_length(one), path, err)))
            return rc;
    }
    json_array_foreach(v, i, one) {
        const json_t *text = json_object_get(one, "template");

        if (!json_is_string(json_object_get(one, "name")) || !json_is_string(text))
            return err_misuse(err, "%s: a chat template of its list has no \"name\" and "
                              "\"template\" that are texts", path);
        rc = add(t, json_str(one, "name"), json_string_value(text), json_string_length(text), path,
                 err);
        if (rc)
            return rc;
    }
    if (v && !json_is_object(v) && !json_is_array(v) && !json_is_null(v))
        return err_misuse(err, "%s: chat_template is neither a text nor a list of templates", path);
    return 0;
}

static int add_of_file(struct chat_template *t, const char *dir, const char *name,
                       struct err *err)
{
    json_t *file = NULL;
    char   *path = NULL;
    int     rc = tokenizer_companion(&file, &path, dir, name, err);

    rc = rc ? rc : add_value(t, json_object_get(file, "chat_template"), path, err);
    json_decref(file);
    free(path);
    return rc;
}

static int add_folders_own(struct chat_template *t, const char *dir, struct err *err)
{
    char *path = file_path(err, "%s/chat_template.jinja", dir);
    int   rc = !path ? -ENOMEM : !file_may_be(path) ? 0 : add_file(t, "default", path, err);

    free(path);
    rc = rc ? rc : add_folder(t, dir, err);
    if (!rc && !t->n)
        rc = add_of_file(t, dir, "tokenizer_config.json", err);
    if (!rc && !t->n)
        rc = add_of_file(t, dir, "chat_template.json", err);
    return rc;
}

/* ---- special tokens */

/* Adds the special tokens that one file names. A token is a text, or an object with its content.
 * all: members such as image_token are tokens, too. */
static int tokens_add(json_t *tokens, const json_t *said, int all)
{
    static const char *const roles[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token" };
    const json_t *extra = json_object_get(said, "extra_special_tokens");
    const char   *key;
    json_t       *v;
    int           failed = 0;

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const char *content = tokenizer_role_name(said, roles[i]);

        if (content)
            failed |= json_object_set_new(tokens, roles[i], json_string(content));
    }
    json_object_foreach((json_t *)(uintptr_t)said, key, v) { // such as image_token
        size_t n = strlen(key);

        if (all && json_is_string(v) && n > 6 && !strcmp(key + n - 6, "_token"))
            failed |= json_object_set(tokens, key, v);
    }
    json_object_foreach((json_t *)(uintptr_t)extra, key, v)
        if (tokenizer_role_name(extra, key))
            failed |= json_object_set_new(tokens, key,
                                          json_string(tokenizer_role_name(extra, key)));
    return failed;
}

/* Adds eos_token if no file names it, as in a folder of GPT-2 with tokenizer.json alone. It is then
 * the token that ends a text in our tokenizer. transformers takes it from the tokenizer's class. */
static int end_add(json_t *tokens, const char *dir)
{
    struct tokenizer *tok = NULL;
    const char       *end = NULL;
    size_t            n;
    int               failed = 0;

    if (!tokenizer_open(&tok, dir, NULL))
        end = tokenizer_bytes(tok, tokenizer_endoftext(tok), &n);
    if (end)
        failed = json_object_set_new(tokens, "eos_token", json_stringn(end, n));
    tokenizer_close(tok);
    return failed;
}

/* Reads the special tokens of tokenizer_config.json. If that file has no added_tokens_decoder,
 * those of special_tokens_map.json are added. */
static int tokens_read(struct chat_template *t, const char *dir, struct err *err)
{
    json_t *config = NULL, *map = NULL;
    int     rc = tokenizer_companion(&config, NULL, dir, "tokenizer_config.json", err);

    if (!rc && !json_object_get(config, "added_tokens_decoder"))
        rc = tokenizer_companion(&map, NULL, dir, "special_tokens_map.json", err);
    t->tokens = json_object();
    int named = json_object_get(config, "eos_token") || json_object_get(map, "eos_token");
    if (!rc && (!t->tokens || tokens_add(t->tokens, config, 1) || tokens_add(t->tokens, map, 0) ||
                (!named && end_add(t->tokens, dir))))
        rc = err_set(err, -ENOMEM, "no memory for the special tokens of %s", dir);
    json_decref(config);
    json_decref(map);
    return rc;
}

/* ---- the choice */

static void names_list(const struct chat_template *t, char *out, size_t size)
{
    size_t n = 0;

    snprintf(out, size, "none (examples/chat.sh writes one)");
    for (size_t i = 0; i < t->n && n + 80 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%.60s", n ? ", " : "", t->list[i].name);
}

static const struct jinja *find(const struct chat_template *t, const char *name)
{
    const struct named *one = table_find(t->list, t->n, sizeof *t->list, name);

    return one ? one->jinja : NULL;
}

static void list_clear(struct chat_template *t, const struct jinja *keep)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].jinja == keep && keep) {
            t->list[n++] = t->list[i];
        } else {
            free(t->list[i].name);
            free(t->list[i].text);
            jinja_free(t->list[i].jinja);
        }
    t->n = n;
}

/* Chooses a template of the folder by its name, or a file. */
static int choose(struct chat_template *t, const char *dir, const char *name, struct err *err)
{
    const struct jinja *own = find(t, name);
    char                names[300];

    t->chosen = 1;
    if (own) {
        list_clear(t, own);
        return 0;
    }
    names_list(t, names, sizeof names);
    if (!file_may_be(name))
        return err_misuse(err, "%s is neither a file nor a chat template of %s, which has: %s",
                          name, dir, names);
    list_clear(t, NULL);
    t->is_file = 1;
    return add_file(t, name, name, err);
}

int chat_template_open(struct chat_template **out, const char *dir, const char *name,
                       struct err *err)
{
    struct chat_template *t = calloc(1, sizeof *t);
    char                  names[300];
    int                   rc = t ? 0 : err_set(err, -ENOMEM, "no memory for a chat template");

    *out = NULL;
    if (rc)
        return rc;
    // a file that the caller names stands also where the folder's own templates are refused
    if (!name || strchr(name, '/') == NULL || access(name, F_OK))
        rc = add_folders_own(t, dir, err);
    if (!rc && name)
        rc = choose(t, dir, name, err);
    if (!rc && t->n > 1 && !find(t, "default")) {
        names_list(t, names, sizeof names);
        rc = err_misuse(err, "%s has several chat templates and none is named default: "
                        "--chat-template takes one of %s", dir, names);
    }
    rc = rc ? rc : tokens_read(t, dir, err);
    if (rc || !t->n)
        chat_template_close(t);
    else
        *out = t;
    return rc;
}

void chat_template_close(struct chat_template *t)
{
    if (!t)
        return;
    list_clear(t, NULL);
    json_decref(t->tokens);
    free(t);
}

int chat_template_is_file(const struct chat_template *t) { return t && t->is_file; }

uint32_t chat_template_sum(const struct chat_template *t)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < t->n; i++) {
        sum = crc32c(sum, t->list[i].name, strlen(t->list[i].name) + 1);
        sum = crc32c(sum, t->list[i].text, strlen(t->list[i].text) + 1);
    }
    return sum;
}

/* The value for chat_template in tokenizer_config.json: one template's text, or a list. */
static json_t *kept_value(const struct chat_template *t)
{
    json_t *list = t->n == 1 ? json_string(t->list[0].text) : json_array();
    int     bad = !list;

    for (size_t i = 0; i < t->n && t->n > 1; i++)
        bad |= json_array_append_new(list, json_pack("{s:s, s:s}", "name", t->list[i].name,
                                                     "template", t->list[i].text));
    return json_whole(list, bad);
}

/* Puts the templates into tokenizer_config.json. A single one goes there only if the file had
 * one. */
static int keep_in_config(const struct chat_template *t, const char *dir, struct err *err)
{
    json_t *file = NULL, *value = kept_value(t);
    char   *path = NULL;
    int     rc = tokenizer_companion(&file, &path, dir, "tokenizer_config.json", err);

    if (!rc && t->n > 1 && !file)
        file = json_object();
    const json_t *said = json_object_get(file, "chat_template");
    int           writes = !rc && (t->n > 1 || (said && !json_equal(said, value)));

    if (!rc && (!value || (writes && json_object_set(file, "chat_template", value))))
        rc = err_set(err, -ENOMEM, "no memory for the chat templates");
    if (!rc && writes)
        rc = json_write(file, path, JSON_INDENT(2), err);
    json_decref(file);
    json_decref(value);
    free(path);
    return rc;
}

int chat_template_keep(const struct chat_template *t, const char *dir, struct err *err)
{
    char *path = file_path(err, "%s/chat_template.jinja", dir);
    int   rc = !path ? -ENOMEM
               : t->n == 1 ? file_write_whole(path, t->list[0].text, strlen(t->list[0].text), err)
                           : 0;

    rc = rc ? rc : keep_in_config(t, dir, err);
    if (!rc && t->n > 1 && unlink(path) && errno != ENOENT)
        rc = err_set(err, -errno, "unlink %s: %s", path, strerror(errno));
    free(path);
    return rc;
}

static const struct jinja *writer(const struct chat_template *t, const json_t *tools)
{
    const struct jinja *j = t->chosen || !tools ? NULL : find(t, "tool_use");

    return j ? j : t->n == 1 ? t->list[0].jinja : find(t, "default");
}

const char *chat_template_text(const struct chat_template *t)
{
    const struct jinja *j = writer(t, NULL);

    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].jinja == j)
            return t->list[i].text;
    return t->n ? t->list[0].text : NULL;
}

int chat_template_marks(const struct chat_template *t, const json_t *tools)
{
    return jinja_marks(writer(t, tools));
}

/* ---- rendering */

/* Returns a message as transformers passes it to a template; NULL: no memory. Null members are left
 * out. Thoughts are copied to reasoning_content, and to thinking if that is missing. */
static json_t *message_plain(const json_t *m)
{
    static const char *const thoughts[] = { "reasoning_content", "thinking", "reasoning" };
    json_t                  *out = json_object(), *thought = NULL, *v;
    const char              *key;
    int                      failed = !out;

    for (size_t i = 0; i < sizeof thoughts / sizeof *thoughts && !thought; i++) {
        thought = json_object_get(m, thoughts[i]);
        thought = json_is_null(thought) ? NULL : thought;
    }
    if (thought)
        failed |= json_object_set(out, "thinking", thought);
    json_object_foreach((json_t *)(uintptr_t)m, key, v)
        if (!json_is_null(v))
            failed |= json_object_set(out, key, v);
    if (thought)
        failed |= json_object_set(out, "reasoning_content", thought);
    return json_whole(out, failed);
}

static json_t *messages_plain(const json_t *messages)
{
    json_t *out = json_array(), *m;
    size_t  i;
    int     failed = !out;

    json_array_foreach(messages, i, m)
        failed |= json_array_append_new(out, message_plain(m));
    return json_whole(out, failed);
}

static json_t *variables_make(const struct chat_template *t, const struct chat_rendering *r)
{
    json_t *v = json_object(), *tools = (json_t *)(uintptr_t)r->tools;
    int     failed = !v || json_object_update(v, t->tokens);

    if (r->bos)
        failed |= json_object_set_new(v, "bos_token", json_string(r->bos));
    if (r->eos)
        failed |= json_object_set_new(v, "eos_token", json_string(r->eos));
    if (r->variables)
        failed |= json_object_update(v, (json_t *)(uintptr_t)r->variables);
    failed |= json_object_set_new(v, "messages", messages_plain(r->messages)) |
              json_object_set_new(v, "documents", json_null()) |
              json_object_set_new(v, "tools", tools ? json_incref(tools) : json_null()) |
              json_object_set_new(v, "add_generation_prompt", json_boolean(r->generation_prompt));
    return json_whole(v, failed);
}

/* Adds to the template's own sentence that a message has a list of parts, because a template that
 * wants texts fails at it. */
static void say_parts(const struct chat_rendering *r, struct err *err)
{
    size_t  n = strlen(err->text), i;
    json_t *m;

    json_array_foreach(r->messages, i, m)
        if (json_is_array(json_object_get(m, "content"))) {
            snprintf(err->text + n, sizeof err->text - n, "; the \"content\" of message %zu is a "
                     "list of parts, and a template may want a text there", i + 1);
            return;
        }
}

int chat_template_render(const struct chat_template *t, const struct chat_rendering *r,
                         struct jinja_output *out, json_t **kept, struct err *err)
{
    const struct jinja *j = writer(t, r->tools);
    struct jinja_limits limits = { .bytes = r->memory, .now = r->now };

    *out = (struct jinja_output){ 0 };
    *kept = variables_make(t, r);
    if (!*kept)
        return err_set(err, -ENOMEM, "no memory for the variables of a chat template");
    int rc = jinja_render(j, *kept, &limits, out, err);

    if (rc) {
        json_decref(*kept);
        *kept = NULL;
        if (err && err->misuse)
            say_parts(r, err);
    }
    return rc;
}

int chat_date(time_t *out, const char *text, struct err *err)
{
    struct tm   tm = { 0 }, was;
    const char *end = strptime(text, "%Y-%m-%d", &tm);

    tm.tm_hour = 12;
    tm.tm_isdst = -1;
    was = tm;
    *out = mktime(&tm);
    if (!end || *end || strlen(text) != 10 || tm.tm_mday != was.tm_mday || tm.tm_mon != was.tm_mon)
        return err_misuse(err, "--date %.40s: a day is expected, such as 2026-01-31", text);
    return 0;
}
