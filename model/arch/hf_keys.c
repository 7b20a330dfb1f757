/* hf_keys.c: reads single keys of config.json, with one function for each type of value. Each
 * checks the value and names the key in its message. */
#include "model/arch/hf_keys.h"

int hf_key_has(const struct hf_keys *k, const char *key)
{
    const json_t *v = json_object_get(k->config, key);

    return v && !json_is_null(v);
}

int hf_key_size(size_t *out, const struct hf_keys *k, const char *key, struct err *err)
{
    const json_t *v = json_object_get(k->config, key);

    if (!json_is_integer(v) || json_integer_value(v) <= 0 || json_integer_value(v) > INT32_MAX)
        return err_misuse(err, "%s: \"%s\" must be a whole number from 1 to %d", k->path, key,
                          INT32_MAX);
    *out = (size_t)json_integer_value(v);
    return 0;
}

int hf_key_size_or(size_t *out, size_t otherwise, const struct hf_keys *k, const char *key,
                   struct err *err)
{
    *out = otherwise;
    return hf_key_has(k, key) ? hf_key_size(out, k, key, err) : 0;
}

int hf_key_rate(float *out, float otherwise, const struct hf_keys *k, const char *key,
                struct err *err)
{
    const json_t *v = json_object_get(k->config, key);
    double        p = v ? json_number_value(v) : (double)otherwise;

    if ((v && !json_is_number(v)) || !(p >= 0 && p < 1))
        return err_misuse(err, "%s: \"%s\" must be a number from 0 to below 1", k->path, key);
    *out = (float)p;
    return 0;
}

int hf_key_epsilon(float *out, float otherwise, const struct hf_keys *k, const char *key,
                   struct err *err)
{
    const json_t *v = json_object_get(k->config, key);

    if (v && (!json_is_number(v) || !(json_number_value(v) > 0) || json_number_value(v) > 1))
        return err_misuse(err, "%s: \"%s\" must be a number between 0 and 1", k->path, key);
    *out = v ? (float)json_number_value(v) : otherwise;
    return 0;
}

int hf_key_flag(int *out, int otherwise, const struct hf_keys *k, const char *key, struct err *err)
{
    const json_t *v = json_object_get(k->config, key);

    if (hf_key_has(k, key) && !json_is_boolean(v))
        return err_misuse(err, "%s: \"%s\" must be true or false", k->path, key);
    *out = hf_key_has(k, key) ? json_is_true(v) : otherwise;
    return 0;
}

int hf_key_must(int value, const struct hf_keys *k, const char *key, const char *family,
                struct err *err)
{
    const json_t *v = json_object_get(k->config, key);

    if (!hf_key_has(k, key) || (json_is_boolean(v) && json_is_true(v) == value))
        return 0;
    return err_misuse(err, "%s: this version trains %s with \"%s\": %s only", k->path, family, key,
                      value ? "true" : "false");
}

int hf_key_word(const char *one, const char *other, const struct hf_keys *k, const char *key,
                struct err *err)
{
    const char *word = json_string_value(json_object_get(k->config, key));

    if (!hf_key_has(k, key) || (word && (!strcmp(word, one) || !strcmp(word, other))))
        return 0;
    return err_misuse(err, "%s: \"%s\" is \"%s\", but this version knows \"%s\" only", k->path, key,
                      word ? word : "?", one);
}

double hf_decimal(float f)
{
    char text[32];

    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        if (strtof(text, NULL) == f)
            break;
    }
    return strtod(text, NULL);
}
