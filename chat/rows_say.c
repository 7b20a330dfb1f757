/* rows_say.c: the words in which rows are refused, for all files of rows. */
#include "chat/rows_parts.h"

#include "data/base/table.h"

TABLE_WORDS(chat_form_name, [CHAT_FORM_FOUND] = "auto", [CHAT_FORM_MESSAGES] = "messages",
            [CHAT_FORM_SHAREGPT] = "sharegpt", [CHAT_FORM_ALPACA] = "alpaca",
            [CHAT_FORM_COMPLETION] = "completion", [CHAT_FORM_TEXT] = "text",
            [CHAT_FORM_PREFERENCE] = "preference")

const char *row_value_kind(const json_t *v)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false", [JSON_NULL] = "null",
    };

    return v ? kinds[json_typeof(v)] : "nothing";
}

const json_t *row_member(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_null(v) ? NULL : v;
}
