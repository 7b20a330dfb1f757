/* hf_keys.h: keys of a config.json, as the families' readers take them (arch.h): each is refused by
 * name where it is not what is computed with here. All return 0 or a misuse. */
#pragma once

#include "data/base/json.h"

struct hf_keys { const json_t *config; const char *path; }; // path: of the file, for sentences

/* Neither absent nor null? */
int hf_key_has(const struct hf_keys *k, const char *key);
/* A positive whole number; the second: or `otherwise` where there is none. */
int hf_key_size(size_t *out, const struct hf_keys *k, const char *key, struct err *err);
int hf_key_size_or(size_t *out, size_t otherwise, const struct hf_keys *k, const char *key,
                   struct err *err);
/* A rate from 0 to below 1, or `otherwise`. */
int hf_key_rate(float *out, float otherwise, const struct hf_keys *k, const char *key,
                struct err *err);
/* A norm's epsilon, above 0 and at most 1, or `otherwise`. */
int hf_key_epsilon(float *out, float otherwise, const struct hf_keys *k, const char *key,
                   struct err *err);
/* A flag, or `otherwise`. */
int hf_key_flag(int *out, int otherwise, const struct hf_keys *k, const char *key, struct err *err);
/* A flag that must be `value`, or not there; family: for the sentence. */
int hf_key_must(int value, const struct hf_keys *k, const char *key, const char *family,
                struct err *err);
/* A word that must be one of two (or the same twice), or not there. */
int hf_key_word(const char *one, const char *other, const struct hf_keys *k, const char *key,
                struct err *err);

/* The shortest decimal that is this float again: 1e-05, not 9.99999975e-06. */
double hf_decimal(float f);
