/* rows_turns.c: checks the turns of a conversation one by one. A turn that a template would not
 * write, or would write in Python's notation, is refused by its number and key. Messages are the
 * objects of the row itself, except that {from, value} is translated. */
#include "chat/rows_parts.h"

#include "data/base/grow.h"
#include "data/base/table.h"

/* The place of a turn, for sentences. */
struct turn { const struct chat_rows *r; const char *key; size_t i; };

#define turn_refuse(t, err, fmt, ...)                                                              \
    row_refuse((t)->r, err, "turn %zu of \"%.40s\": " fmt, (t)->i + 1, (t)->key, ##__VA_ARGS__)

int turns_begin(struct turns *t, struct err *err)
{
    json_decref(t->is.messages);
    t->is.messages = json_array();
    return t->is.messages ? 0 : err_set(err, -ENOMEM, "no memory for the turns of a row");
}

void turns_free(struct turns *t)
{
    json_decref(t->is.messages);
    free(t->is.counts);
    *t = (struct turns){ 0 };
}

/* Appends a message, and takes over the reference to it. */
static int put(struct turns *t, json_t *message, enum chat_counts counts, struct err *err)
{
    size_t n = json_array_size(t->is.messages);
    int    rc = message ? grow(&t->is.counts, &t->cap, n + 1, sizeof *t->is.counts, "turns", err)
                        : err_set(err, -ENOMEM, "no memory for a turn");

    if (rc) {
        json_decref(message);
        return rc;
    }
    if (json_array_append_new(t->is.messages, message))
        return err_set(err, -ENOMEM, "no memory for a turn");
    t->is.counts[n] = counts;
    return 0;
}

int turns_add_text(struct turns *t, const char *role, json_t *text, struct err *err)
{
    return put(t, text ? json_pack("{s:s, s:o}", "role", role, "content", text) : NULL,
               CHAT_BY_ROLE, err);
}

/* ---- what a turn has */

static int text_of(const struct turn *t, const json_t *m, const char *key, const char **out,
                   struct err *err)
{
    const json_t *v = json_object_get(m, key);

    *out = json_string_value(v);
    if (*out)
        return 0;
    if (!v)
        return turn_refuse(t, err, "it has no \"%s\"", key);
    return turn_refuse(t, err, "\"%s\" is %s, a text is expected", key, row_value_kind(v));
}

static int one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(word, *words))
            return 1;
    return 0;
}

/* Reads whether a turn is trained on: "train" (Axolotl) or "weight" (OpenAI, Mistral). */
static int counts_of(const struct turn *t, const json_t *m, enum chat_counts *counts,
                     struct err *err)
{
    static const char *const parts[] = { "train_detail", "training_detail" };
    const json_t *train = row_member(m, "train"), *weight = row_member(m, "weight");

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (row_member(m, parts[i]))
            return turn_refuse(t, err, "\"%s\": parts of a turn cannot be trained on alone; two "
                               "turns with \"train\" true and false can", parts[i]);
    if (train && !json_is_boolean(train))
        return turn_refuse(t, err, "\"train\" is %s, true or false is expected",
                           row_value_kind(train));
    double w = json_number_value(weight);
    if (weight && (!json_is_number(weight) || (w != 0 && w != 1)))
        return turn_refuse(t, err, "\"weight\" is %s, 0 or 1 is expected",
                           json_is_number(weight) ? "another number" : row_value_kind(weight));
    if (train && weight && json_is_true(train) != (w == 1))
        return turn_refuse(t, err, "\"train\" and \"weight\" disagree");
    if (train || weight)
        *counts = json_is_true(train) || w == 1 ? CHAT_ALWAYS : CHAT_NEVER;
    return 0;
}

static int calls_check(const struct turn *t, const json_t *calls, struct err *err)
{
    const json_t *call;
    size_t        i;

    if (!json_is_array(calls))
        return turn_refuse(t, err, "\"tool_calls\" is %s, a list is expected",
                           row_value_kind(calls));
    json_array_foreach(calls, i, call) {
        const json_t *function = row_member(call, "function");
        const json_t *of = function ? function : call, *arguments = row_member(of, "arguments");

        if (!json_is_object(call) || !json_is_object(of))
            return turn_refuse(t, err, "\"tool_calls\" holds %s, objects are expected",
                               row_value_kind(json_is_object(call) ? of : call));
        if (!json_is_string(json_object_get(of, "name")))
            return turn_refuse(t, err, "a tool call has no \"name\" that is a text");
        if (arguments && !json_is_object(arguments) && !json_is_string(arguments))
            return turn_refuse(t, err, "\"arguments\" of a tool call is %s, an object or a text "
                               "of JSON is expected", row_value_kind(arguments));
    }
    return 0;
}

static int parts_check(const struct turn *t, const json_t *parts, struct err *err)
{
    const json_t *part;
    size_t        i;

    json_array_foreach(parts, i, part) {
        const char *type = json_str(part, "type");

        if (!json_is_object(part) || !*type)
            return turn_refuse(t, err, "\"content\" is a list whose part %zu is not an object "
                               "with a \"type\"", i + 1);
        if (strcmp(type, "text") != 0)
            return turn_refuse(t, err, "\"content\" has a part of type \"%.40s\"; siTrain trains "
                               "on texts alone", type);
        if (!json_is_string(json_object_get(part, "text")))
            return turn_refuse(t, err, "part %zu of \"content\" has no \"text\"", i + 1);
    }
    return 0;
}

/* Whether an assistant says something else than a content: tool calls or thoughts. */
static int says_else(const json_t *m, const char *role)
{
    return !strcmp(role, "assistant") &&
           (json_array_size(json_object_get(m, "tool_calls")) ||
            json_is_string(json_object_get(m, "reasoning_content")) ||
            json_is_string(json_object_get(m, "thinking")));
}

static int message_check(const struct turn *t, const json_t *m, struct err *err)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool",
                                         "function", "ipython", NULL };
    const char   *role;
    const json_t *calls = row_member(m, "tool_calls"), *content = row_member(m, "content");
    int           rc = text_of(t, m, "role", &role, err);

    if (rc)
        return rc;
    if (!one_of(role, roles))
        return turn_refuse(t, err, "the \"role\" \"%.40s\" is not known; known are system, "
                           "developer, user, assistant, tool, function and ipython", role);
    if (row_member(m, "function_call"))
        return turn_refuse(t, err, "\"function_call\" is not read: write it as \"tool_calls\", "
                           "which chat templates know");
    if (calls && (rc = calls_check(t, calls, err)))
        return rc;
    if (json_array_size(content))
        return parts_check(t, content, err);
    if (json_is_string(content) || ((!content || json_is_array(content)) && says_else(m, role)))
        return 0;
    if (!json_object_get(m, "content"))
        return turn_refuse(t, err, "it has no \"content\"");
    return turn_refuse(t, err, "\"content\" is %s, a text is expected",
                       json_is_array(content) ? "an empty list"
                                              : row_value_kind(json_object_get(m, "content")));
}

/* ---- ShareGPT */

/* Makes tool_calls of {"name", "arguments"}, or a list of these. Returns NULL, and the reason in
 * *why, if the text is neither. */
static json_t *calls_make(const char *value, const char **why)
{
    json_t *said = json_loads(value, JSON_REJECT_DUPLICATES, NULL), *calls = json_array(), *one;
    size_t  n = json_is_array(said) ? json_array_size(said) : 1;

    *why = NULL;
    for (size_t i = 0; i < n && calls && !*why; i++) {
        json_t *call = json_is_array(said) ? json_array_get(said, i) : said;

        if (!json_is_string(json_object_get(call, "name")))
            *why = "the value of a function_call is not JSON of the form {\"name\": ..., "
                   "\"arguments\": ...}, or a list of such";
        else if (!(one = json_pack("{s:s, s:O}", "type", "function", "function", call)) ||
                 json_array_append_new(calls, one))
            *why = "no memory for a function call";
    }
    json_decref(said);
    if (*why || !n) {
        *why = *why ? *why : "a function_call without a function";
        json_decref(calls);
        return NULL;
    }
    return calls;
}

static const char *role_of(const char *from)
{
    static const struct known { const char *from, *role; } roles[] = {
        { "human", "user" }, { "user", "user" }, { "gpt", "assistant" },
        { "assistant", "assistant" }, { "model", "assistant" }, { "chatgpt", "assistant" },
        { "system", "system" }, { "function_call", "assistant" }, { "observation", "tool" },
        { "tool", "tool" },
    };

    const struct known *known = TABLE_FIND(roles, from);

    return known ? known->role : NULL;
}

/* Translates a turn {from, value} to a message. Its other keys are kept. */
static int translate(const struct turn *t, const json_t *turn, json_t **out, struct err *err)
{
    const char *from, *value, *key, *why = NULL;
    json_t     *v, *calls = NULL;
    int         rc = text_of(t, turn, "from", &from, err);

    rc = rc ? rc : text_of(t, turn, "value", &value, err);
    if (rc)
        return rc;
    if (!role_of(from))
        return turn_refuse(t, err, "\"from\" is \"%.40s\", which is not known; known are system, "
                           "human, user, gpt, assistant, model, chatgpt, function_call, "
                           "observation and tool", from);
    if (!strcmp(from, "function_call") && !(calls = calls_make(value, &why)))
        return turn_refuse(t, err, "%s", why);
    json_t *m = json_pack("{s:s}", "role", role_of(from));
    int     failed = !m;

    if (calls)
        failed |= json_object_set_new(m, "content", json_string("")) |
                  json_object_set_new(m, "tool_calls", calls);
    else
        failed |= json_object_set(m, "content", json_object_get(turn, "value"));
    json_object_foreach((json_t *)(uintptr_t)turn, key, v)
        if (strcmp(key, "from") != 0 && strcmp(key, "value") != 0 && !json_object_get(m, key))
            failed |= json_object_set(m, key, v);
    if (failed) {
        json_decref(m);
        return err_set(err, -ENOMEM, "no memory for a turn");
    }
    *out = m;
    return 0;
}

int turns_add(const struct chat_rows *r, struct turns *turns, const struct turns_list *from,
              struct err *err)
{
    struct turn t = { r, from->key, 0 };

    if (!json_is_array(from->list))
        return row_refuse(r, err, "\"%.40s\" is %s, a list of turns is expected%s", from->key,
                          row_value_kind(from->list), r->column ? ": save such rows as JSON" : "");
    if (!json_array_size(from->list))
        return row_refuse(r, err, "\"%.40s\" is an empty list: a conversation has a turn at least",
                          from->key);
    for (; t.i < json_array_size(from->list); t.i++) {
        json_t          *is = json_array_get(from->list, t.i), *m = NULL;
        enum chat_counts counts = from->counts;
        int              rc = 0;

        if (!json_is_object(is))
            return turn_refuse(&t, err, "it is %s, an object is expected", row_value_kind(is));
        if (from->sharegpt && json_object_get(is, "from"))
            rc = translate(&t, is, &m, err);
        else if (!from->sharegpt && json_object_get(is, "from") && !json_object_get(is, "role"))
            rc = turn_refuse(&t, err, "it has \"from\" where \"role\" is expected: --rows "
                             "sharegpt reads such turns");
        else
            m = json_incref(is);
        rc = rc ? rc : message_check(&t, m, err);
        rc = rc ? rc : counts_of(&t, m, &counts, err);
        rc = rc ? rc : put(turns, json_incref(m), counts, err);
        json_decref(m);
        if (rc)
            return rc;
    }
    return 0;
}
