/* hf_keys.h: typed reading of config.json keys, for the families' config_read (arch.h). A key
 * whose value this program does not compute is refused by its name. All readers return 0 or a
 * misuse. */
#pragma once

#include "data/json/json.h"

struct hf_keys { const json_t *config; const char *path; }; // path: the file, for messages

/* True if the key is neither absent nor null. */
int hf_key_has(const struct hf_keys *k, const char *key);
/* Reads a positive whole number. hf_key_size_or gives `otherwise` if the key is absent. */
int hf_key_size(size_t *out, const struct hf_keys *k, const char *key, struct err *err);
int hf_key_size_or(size_t *out, size_t otherwise, const struct hf_keys *k, const char *key,
                   struct err *err);
/* Reads a rate from 0 to below 1; `otherwise` if absent. */
int hf_key_rate(float *out, float otherwise, const struct hf_keys *k, const char *key,
                struct err *err);
/* Reads a norm's epsilon, above 0 and at most 1; `otherwise` if absent. */
int hf_key_epsilon(float *out, float otherwise, const struct hf_keys *k, const char *key,
                   struct err *err);
/* Reads a flag; `otherwise` if absent. */
int hf_key_flag(int *out, int otherwise, const struct hf_keys *k, const char *key, struct err *err);
/* Checks that a flag is `value` or absent. family: its name, for the message. */
int hf_key_must(int value, const struct hf_keys *k, const char *key, const char *family,
                struct err *err);
/* Checks that a word is `one`, `other` or absent. Pass one word twice if only that word is
 * allowed. */
int hf_key_word(const char *one, const char *other, const struct hf_keys *k, const char *key,
                struct err *err);

/* The shortest decimal number that rounds to this float: 1e-05, not 9.99999975e-06. */
double hf_decimal(float f);
