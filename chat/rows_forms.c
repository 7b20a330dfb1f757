/* rows_forms.c: makes a chat_row of a row of each form. A function per form reads the members that
 * the form has, and refuses a member of another type by its key. */
#include "chat/rows_parts.h"

#include "data/base/utf8.h"

static int none(const json_t *v)
{
    return !v || (json_is_string(v) && !json_string_length(v)) ||
           (json_is_array(v) && !json_array_size(v));
}

static int is_text(const json_t *v) { return json_is_string(v); }

/* Gets a member that must be there. */
static int member_of(const struct chat_rows *r, enum row_key k, const json_t **out,
                     struct err *err)
{
    const char *key = r->key[k], *of = chat_form_name(r->form);

    *out = row_member(r->object, key);
    if (*out)
        return 0;
    if (json_object_get(r->object, key))
        return row_refuse(r, err, "\"%.40s\" is null, which no row of the form %s has", key, of);
    return row_refuse(r, err, "there is no \"%.40s\", which each row of the form %s has", key, of);
}

static int text_expected(const struct chat_rows *r, const char *key, const json_t *v,
                         struct err *err)
{
    return is_text(v) ? 0
                      : row_refuse(r, err, "\"%.40s\" is %s, a text is expected", key,
                                   row_value_kind(v));
}

/* Gets a text that may be missing, null or empty; *out is NULL then. */
static int text_optional(const struct chat_rows *r, const char *key, json_t **out,
                         struct err *err)
{
    *out = json_object_get(r->object, key);
    if (!row_member(r->object, key) || (is_text(*out) && none(*out)))
        *out = NULL;
    return *out ? text_expected(r, key, *out, err) : 0;
}

/* ---- what all forms have */

/* Refuses keys that change the meaning of a row and are not read here. */
static int unread_check(const struct chat_rows *r, struct err *err)
{
    static const char *const media[] = { "images", "image", "videos", "video", "audios", "audio" };

    for (size_t i = 0; i < sizeof media / sizeof *media; i++)
        if (!none(row_member(r->object, media[i])))
            return row_refuse(r, err, "it has \"%s\": siTrain trains on texts alone", media[i]);
    if (!none(row_member(r->object, "functions")))
        return row_refuse(r, err, "\"functions\" is not read: write it as \"tools\", which chat "
                          "templates know");
    return 0;
}

/* Wraps tools that are the function alone, as ShareGPT's may be, like LLaMA-Factory. */
static int tools_wrap(struct chat_rows *r, struct err *err)
{
    json_t *wrapped = json_array(), *tool;
    size_t  i;
    int     failed = !wrapped;

    json_array_foreach(r->tools, i, tool) {
        int whole = !strcmp(json_str(tool, "type"), "function") ||
                    json_object_get(tool, "function");

        failed |= whole ? json_array_append(wrapped, tool)
                        : json_array_append_new(wrapped, json_pack("{s:s, s:O}", "type",
                                                                   "function", "function", tool));
    }
    json_decref(r->tools);
    r->tools = wrapped;
    return failed ? err_set(err, -ENOMEM, "no memory for the tools of a row") : 0;
}

static int tools_read(struct chat_rows *r, int translated, struct err *err)
{
    const json_t *said = row_member(r->object, "tools");
    json_t       *tool;
    size_t        i;

    json_decref(r->tools);
    r->tools = NULL;
    if (!said || (is_text(said) && none(said)))
        return 0;
    r->tools = is_text(said) ? json_loadb(json_string_value(said), json_string_length(said),
                                          JSON_REJECT_DUPLICATES, NULL)
                             : json_incref((json_t *)(uintptr_t)said);
    if (!json_is_array(r->tools))
        return row_refuse(r, err, "\"tools\" is %s, a list of tools is expected%s",
                          row_value_kind(said), is_text(said) ? " in it as JSON" : "");
    json_array_foreach(r->tools, i, tool)
        if (!json_is_object(tool))
            return row_refuse(r, err, "tool %zu of \"tools\" is %s, an object is expected", i + 1,
                              row_value_kind(tool));
    if (translated && !json_array_size(r->tools)) {
        json_decref(r->tools);
        r->tools = NULL;
    }
    return translated && r->tools ? tools_wrap(r, err) : 0;
}

/* Reads what the template gets besides turns. translated: the turns had another form. */
static int around_read(struct chat_rows *r, int translated, struct err *err)
{
    const json_t *variables = row_member(r->object, "chat_template_kwargs");
    int           rc = tools_read(r, translated, err);

    if (!rc && variables && !json_is_object(variables))
        rc = row_refuse(r, err, "\"chat_template_kwargs\" is %s, an object is expected",
                        row_value_kind(variables));
    if (!rc && !translated && !none(row_member(r->object, "system")))
        rc = row_refuse(r, err, "it has \"system\" beside turns of its own: the text of the "
                        "system is the first of them");
    r->row.tools = r->tools;
    r->row.variables = variables;
    return rc;
}

static int text_row(struct chat_rows *r, const char *prompt, const char *completion)
{
    r->row.has_turns = 0;
    r->row.prompt = prompt;
    r->row.completion = completion;
    return 0;
}

static int turns_row(struct chat_rows *r)
{
    r->row.has_turns = 1;
    r->row.turns = r->turns.is;
    if (r->form == CHAT_FORM_PREFERENCE)
        r->row.other_turns = r->other.is;
    return 0;
}

/* ---- the forms */

static int messages_make(struct chat_rows *r, struct err *err)
{
    struct turns_list from = { .key = r->key[KEY_MESSAGES] };
    int               rc = member_of(r, KEY_MESSAGES, &from.list, err);

    rc = rc ? rc : turns_add(r, &r->turns, &from, err);
    rc = rc ? rc : around_read(r, 0, err);
    return rc ? rc : turns_row(r);
}

static int sharegpt_make(struct chat_rows *r, struct err *err)
{
    struct turns_list from = { .key = r->key[KEY_CONVERSATIONS], .sharegpt = 1 };
    json_t           *system;
    int               rc = member_of(r, KEY_CONVERSATIONS, &from.list, err);

    rc = rc ? rc : text_optional(r, "system", &system, err);
    if (!rc && system)
        rc = turns_add_text(&r->turns, "system", json_incref(system), err);
    rc = rc ? rc : turns_add(r, &r->turns, &from, err);
    if (!rc && system &&
        !strcmp(json_str(json_array_get(r->turns.is.messages, 1), "role"), "system"))
        rc = row_refuse(r, err, "both \"system\" and the first turn of \"%.40s\" are the system's",
                        from.key);
    rc = rc ? rc : around_read(r, 1, err);
    return rc ? rc : turns_row(r);
}

static int history_add(struct chat_rows *r, struct err *err)
{
    json_t *history = json_object_get(r->object, "history"), *pair;
    size_t  i;

    if (none(row_member(r->object, "history")))
        return 0;
    if (!json_is_array(history))
        return row_refuse(r, err, "\"history\" is %s, a list of pairs [user, assistant] is "
                          "expected", row_value_kind(history));
    json_array_foreach(history, i, pair) {
        json_t *user = json_array_get(pair, 0), *assistant = json_array_get(pair, 1);

        if (json_array_size(pair) != 2 || !is_text(user) || !is_text(assistant))
            return row_refuse(r, err, "pair %zu of \"history\" is not a list of two texts, a "
                              "user's and an assistant's", i + 1);
        int rc = turns_add_text(&r->turns, "user", json_incref(user), err);

        if (!rc)
            rc = turns_add_text(&r->turns, "assistant", json_incref(assistant), err);
        if (rc)
            return rc;
    }
    return 0;
}

static int alpaca_make(struct chat_rows *r, struct err *err)
{
    const json_t *output;
    json_t       *system, *instruction, *input;
    int           rc = text_optional(r, "system", &system, err);

    rc = rc ? rc : text_optional(r, r->key[KEY_INSTRUCTION], &instruction, err);
    rc = rc ? rc : text_optional(r, "input", &input, err);
    rc = rc ? rc : member_of(r, KEY_OUTPUT, &output, err);
    rc = rc ? rc : text_expected(r, r->key[KEY_OUTPUT], output, err);
    if (!rc && !instruction && !input)
        rc = row_refuse(r, err, "\"%s\" is missing or empty, and so is \"input\"",
                        r->key[KEY_INSTRUCTION]);
    if (!rc && system)
        rc = turns_add_text(&r->turns, "system", json_incref(system), err);
    rc = rc ? rc : history_add(r, err);
    if (rc)
        return rc;
    json_t *user = instruction && input
                       ? json_sprintf("%s\n%s", json_string_value(instruction),
                                      json_string_value(input))
                       : json_incref(instruction ? instruction : input);

    rc = turns_add_text(&r->turns, "user", user, err);
    rc = rc ? rc : turns_add_text(&r->turns, "assistant",
                                  json_incref((json_t *)(uintptr_t)output), err);
    rc = rc ? rc : around_read(r, 1, err);
    return rc ? rc : turns_row(r);
}

/* Refuses two members that are neither both texts nor both lists. */
static int both_kinds(const struct chat_rows *r, const char *const key[2], const json_t *a,
                      const json_t *b, struct err *err)
{
    const json_t *strange = !is_text(a) && !json_is_array(a) ? a : b;

    if ((is_text(a) && is_text(b)) || (json_is_array(a) && json_is_array(b)))
        return 0;
    if (!is_text(strange) && !json_is_array(strange))
        return row_refuse(r, err, "\"%.40s\" is %s, a text or a list of turns is expected",
                          key[strange == b], row_value_kind(strange));
    return row_refuse(r, err, "\"%.40s\" is %s and \"%.40s\" is %s: both must be texts, or both "
                      "lists of turns", key[0], row_value_kind(a), key[1], row_value_kind(b));
}

static int completion_make(struct chat_rows *r, struct err *err)
{
    const char *const key[2] = { r->key[KEY_PROMPT], r->key[KEY_COMPLETION] };
    const json_t     *prompt, *completion;
    int               rc = member_of(r, KEY_PROMPT, &prompt, err);

    rc = rc ? rc : member_of(r, KEY_COMPLETION, &completion, err);
    rc = rc ? rc : both_kinds(r, key, prompt, completion, err);
    if (rc || is_text(prompt))
        return rc ? rc : text_row(r, json_string_value(prompt), json_string_value(completion));
    struct turns_list before = { .key = key[0], .list = prompt, .counts = CHAT_PROMPT };
    struct turns_list from = { .key = key[1], .list = completion };

    rc = turns_add(r, &r->turns, &before, err);
    rc = rc ? rc : turns_add(r, &r->turns, &from, err);
    rc = rc ? rc : around_read(r, 0, err);
    return rc ? rc : turns_row(r);
}

static int text_make(struct chat_rows *r, struct err *err)
{
    const json_t *text;
    int           rc = member_of(r, KEY_TEXT, &text, err);

    rc = rc ? rc : text_expected(r, r->key[KEY_TEXT], text, err);
    return rc ? rc : text_row(r, "", json_string_value(text));
}

/* ---- preferences */

/* Makes a prompt of the beginning that two texts have in common, without a space at its end. A part
 * of each text is left. */
static int common_text(struct chat_rows *r, const char *chosen, const char *rejected,
                       struct err *err)
{
    size_t n = 0, back = 0;

    while (chosen[n] && chosen[n] == rejected[n])
        n++;
    if (chosen[n] == rejected[n])
        return row_refuse(r, err, "\"%.40s\" and \"%.40s\" are the same text, and there is no "
                          "\"%.40s\"", r->key[KEY_CHOSEN], r->key[KEY_REJECTED],
                          r->key[KEY_PROMPT]);
    while (n && ((unsigned char)chosen[n] & 0xC0) == 0x80) // a code point is not cut
        n--;
    if (n && (!chosen[n] || !rejected[n]))
        back = utf8_last(chosen, n);
    n -= back;
    n -= !back && n && chosen[n - 1] == ' ';
    if (!(r->prompt = strndup(chosen, n)))
        return err_set(err, -ENOMEM, "no memory for a prompt");
    text_row(r, r->prompt, chosen + n);
    r->row.other = rejected + n;
    return 0;
}

static int preference_texts(struct chat_rows *r, const json_t *prompt, const char *chosen,
                            const char *rejected, struct err *err)
{
    if (!prompt)
        return common_text(r, chosen, rejected, err);
    int rc = text_expected(r, r->key[KEY_PROMPT], prompt, err);

    if (rc)
        return rc;
    r->row.other = rejected;
    return text_row(r, json_string_value(prompt), chosen);
}

/* Makes a prompt of the turns that two lists begin with. At least one turn is left of each. A
 * prompt that is a text must be the content of the first user's turn. */
static int common_turns(struct chat_rows *r, const json_t *prompt, struct err *err)
{
    json_t *a = r->turns.is.messages, *b = r->other.is.messages;
    size_t  n = json_array_size(a) < json_array_size(b) ? json_array_size(a) : json_array_size(b);
    size_t  same = 0, user = 0;

    while (same + 1 < n && json_equal(json_array_get(a, same), json_array_get(b, same)))
        same++;
    while (user < same && strcmp(json_str(json_array_get(a, user), "role"), "user") != 0)
        user++;
    if (prompt && (user == same ||
                   !json_equal(json_object_get(json_array_get(a, user), "content"), prompt)))
        return row_refuse(r, err, "\"%.40s\" is a text beside lists of turns, and is not what "
                          "their first user says", r->key[KEY_PROMPT]);
    for (size_t i = 0; i < same; i++)
        r->turns.is.counts[i] = r->other.is.counts[i] = CHAT_NEVER;
    return 0;
}

static int preference_make(struct chat_rows *r, struct err *err)
{
    static const char *const others[] = { "instruction", "conversations" };
    const char *const        key[2] = { r->key[KEY_CHOSEN], r->key[KEY_REJECTED] };
    struct turns_list        from[2] = { { .key = key[0] }, { .key = key[1] } };
    const json_t            *prompt = row_member(r->object, r->key[KEY_PROMPT]);
    struct turns_list        before = { r->key[KEY_PROMPT], prompt, 0, CHAT_NEVER };
    int                      rc = member_of(r, KEY_CHOSEN, &from[0].list, err);

    rc = rc ? rc : member_of(r, KEY_REJECTED, &from[1].list, err);
    rc = rc ? rc : both_kinds(r, key, from[0].list, from[1].list, err);
    for (size_t i = 0; !rc && !prompt && i < sizeof others / sizeof *others; i++)
        if (!none(row_member(r->object, others[i])))
            rc = row_refuse(r, err, "it has \"%s\" beside \"%.40s\" and \"%.40s\": a preference "
                            "has its question in \"%.40s\"", others[i], key[0], key[1],
                            r->key[KEY_PROMPT]);
    if (!rc && is_text(from[0].list))
        return preference_texts(r, prompt, json_string_value(from[0].list),
                                json_string_value(from[1].list), err);
    if (!rc && prompt && !is_text(prompt)) {
        rc = turns_add(r, &r->turns, &before, err);
        rc = rc ? rc : turns_add(r, &r->other, &before, err);
    }
    rc = rc ? rc : turns_add(r, &r->turns, &from[0], err);
    rc = rc ? rc : turns_add(r, &r->other, &from[1], err);
    if (!rc && (!prompt || is_text(prompt)))
        rc = common_turns(r, prompt, err);
    rc = rc ? rc : around_read(r, 0, err);
    return rc ? rc : turns_row(r);
}

int row_make(struct chat_rows *r, struct err *err)
{
    static int (*const make[])(struct chat_rows *r, struct err *err) = {
        [CHAT_FORM_MESSAGES] = messages_make,     [CHAT_FORM_SHAREGPT] = sharegpt_make,
        [CHAT_FORM_ALPACA] = alpaca_make,         [CHAT_FORM_COMPLETION] = completion_make,
        [CHAT_FORM_TEXT] = text_make,             [CHAT_FORM_PREFERENCE] = preference_make,
    };
    int rc = turns_begin(&r->turns, err);

    rc = rc ? rc : turns_begin(&r->other, err);
    free(r->prompt);
    r->prompt = NULL;
    r->row = (struct chat_row){ .path = r->path, .line = r->file.line, .form = r->form };
    rc = rc ? rc : unread_check(r, err);
    return rc ? rc : make[r->form](r, err);
}
