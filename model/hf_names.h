/* hf_names.h: what reading (hf.c) and writing (hf_export.c) Hugging Face's folders have in common;
 * nobody else includes it. */
#ifndef MODEL_HF_NAMES_H
#define MODEL_HF_NAMES_H

#include "data/base/json.h"
#include "model/gpt.h"

enum { HF_NAME_BYTES = 128, HF_PATH_BYTES = 4096 };

extern const char HF_CLASSIFIER[]; // a classifier's architecture

int hf_path(char *out, const char *dir, const char *name, struct err *err); // of HF_PATH_BYTES

const char *hf_problem_type(const struct gpt_config *g);

/* Label i's name: a string (a number is taken as its text); LABEL_i where there are no names.
 * Malloced; NULL: none for i, or no memory. */
char *hf_label_name(const json_t *names, size_t i);

#endif
