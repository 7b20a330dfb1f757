/* signs.c: looks for the texts of messages in what a template has written. */
#include "chat/signs.h"

#define WHITE " \n\t\r"

static int has(const struct jinja_output *text, const char *what, size_t n)
{
    return memmem(text->text, text->bytes, what, n) != NULL;
}

/* ---- tool calls */

/* Whether arguments that are a text of JSON appear in the output as a string of JSON. */
static int is_quoted(const json_t *arguments, const struct jinja_output *text)
{
    const char *said = json_string_value(arguments);

    if (!said || said[strspn(said, WHITE)] != '{' || !strchr(said, '"') ||
        has(text, said, strlen(said)))
        return 0;
    char *again = json_dumps(arguments, JSON_ENCODE_ANY);
    int   quoted = again && has(text, again, strlen(again));

    free(again);
    return quoted;
}

static int calls_quoted(const json_t *message, const struct jinja_output *text)
{
    const json_t *calls = json_object_get(message, "tool_calls");

    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *f = json_object_get(call, "function");

        if (is_quoted(json_object_get(f ? f : call, "arguments"), text))
            return 1;
    }
    return 0;
}

/* ---- thoughts */

/* Returns the thoughts of a message, of *n bytes, without white space around them. *n 0: none. */
static const char *thought_of(const json_t *message, size_t *n)
{
    static const char *const keys[] = { "reasoning_content", "thinking", "reasoning" };
    const char *content = json_string_value(json_object_get(message, "content")), *thought = NULL;
    const char *end = content ? strstr(content, "</think>") : NULL;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !thought; i++)
        thought = json_string_value(json_object_get(message, keys[i]));
    *n = thought ? strlen(thought) : 0;
    if (!thought && end) {
        const char *begin = strstr(content, "<think>");

        thought = begin && begin < end ? begin + strlen("<think>") : content;
        *n = (size_t)(end - thought);
    }
    while (*n && strchr(WHITE, *thought)) {
        thought++;
        --*n;
    }
    while (*n && strchr(WHITE, thought[*n - 1]))
        --*n;
    return thought;
}

/* ---- answers and tools */

int chat_is_blank(const char *text) { return !text[strspn(text, WHITE)]; }

static int is_empty(const json_t *message)
{
    const char *content = json_string_value(json_object_get(message, "content"));

    return content && chat_is_blank(content) &&
           !json_array_size(json_object_get(message, "tool_calls"));
}

/* Whether v, a member called `key`, is or contains an object called properties with a null
 * member. */
static int has_nulls(const json_t *v, const char *key)
{
    int         found = 0, properties = !strcmp(key, "properties");
    const char *name;
    json_t     *member;

    for (size_t i = 0; i < json_array_size(v) && !found; i++)
        found = has_nulls(json_array_get(v, i), "");
    json_object_foreach((json_t *)(uintptr_t)v, name, member)
        found |= (properties && json_is_null(member)) || has_nulls(member, name);
    return found;
}

/* ---- all */

unsigned chat_signs(const struct chat_turns *turns, const json_t *tools,
                    const struct jinja_output *text, size_t first)
{
    unsigned signs = has_nulls(tools, "") ? CHAT_NULLS : 0;

    for (size_t i = 0; i < json_array_size(turns->messages); i++) {
        const json_t *m = json_array_get(turns->messages, i);
        const char   *role = json_string_value(json_object_get(m, "role"));
        size_t        n;

        if (!role || strcmp(role, "assistant") != 0)
            continue;
        if (calls_quoted(m, text))
            signs |= CHAT_QUOTED;
        const char *thought = thought_of(m, &n);

        if (i < first || turns->counts[i] == CHAT_NEVER)
            continue;
        if (n && !has(text, thought, n))
            signs |= CHAT_THOUGHTLESS;
        if (!n && is_empty(m))
            signs |= CHAT_EMPTY;
    }
    return signs;
}
