/* peft.h: adapter folders, as Hugging Face's PEFT stores them: adapter_config.json and
 * adapter_model.safetensors. They are read as the parameters of a model with adapters (lora.h), and
 * written (hf_export) so that `peft` loads them on their base, which is the model without adapters.
 *
 * A tensor has the name that it has in the model, behind "base_model.model.". A classifier's head
 * is in the folder, too (PEFT's modules_to_save). */
#pragma once

#include "model/file/hf.h"
#include "model/lora/lora.h"

struct peft; // an open adapter folder

/* True if dir has an adapter_config.json. */
int peft_is_folder(const char *dir);

/* Opens the file of an adapter folder, or the files of a model's (safetensors.h). */
int peft_files_open(struct safetensors **out, const char *dir, struct err *err);
/* *sum: the checksum of the files that peft_files_open opens (safetensors.h); 0 after a failure. */
int peft_files_sum(uint32_t *sum, const char *dir, struct err *err);

/* Misuse: adapter_config.json is none of PEFT's (MLX's, ...). */
int peft_refuse_foreign(const char *dir, struct err *err);

/* Writes a sentence as err_misuse does, and behind it the command of peft that merges the adapter
 * in dir into its model. Returns -EINVAL. */
int peft_misuse(struct err *err, const char *dir, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Finds the folder of the base. given: what the user says; NULL: what adapter_config.json says,
 * from here or from the adapter's folder. If dir holds a model next to the adapter, the base is dir
 * itself. base has HF_PATH_BYTES. Misuse: there is no such folder. */
int peft_base(char *base, const char *dir, const char *given, struct err *err);

/* Gives *g, the configuration of the base, the adapters of the folder, and the classes of the head
 * in it. What siTrain does not train is misuse, by its key in adapter_config.json or by the
 * tensor's name. */
int peft_config(struct model_config *g, const char *dir, struct err *err);

/* The parameters of the base, by the blocks of lora_base(g), or, if it is `adapted`, of g; and the
 * number of its classes; 0: a language model. */
struct peft_base { struct params_source source; size_t n_labels; int adapted; };

/* Opens the parameters of a folder. g: as peft_config made it. Checksums of this program's own
 * exports are verified. watch: is told of the progress; may be NULL. */
int  peft_open(struct peft **out, const struct model_config *g, const struct peft_base *base,
               const char *dir, const struct watch *watch, struct err *err);
void peft_close(struct peft *p); // NULL is allowed
uint32_t peft_sum(const struct peft *p); // as hf_sum
/* The base_sum (adapted.h) of the base that the adapter was trained on; NULL: its folder does not
 * say it. peft_other_base: true if that is not the base with which it was opened. */
const char *peft_base_sum(const struct peft *p);
int         peft_other_base(const struct peft *p);

/* The parameters by the blocks of g, as fp32: the folder's, and where it has none, the base's. p
 * and the base must outlive the source. */
struct params_source peft_source(struct peft *p);

/* ---- shared by peft.c, peft_other.c, peft_export.c and hf_export.c; for these files alone ---- */

#define PEFT_CONFIG "adapter_config.json"
#define PEFT_MODEL  "adapter_model.safetensors"
#define PEFT_PREFIX "base_model.model."

/* Reads adapter_config.json, whose path it writes. The caller frees *out, which is NULL after an
 * error. */
int peft_settings(json_t **out, char path[HF_PATH_BYTES], const char *dir, struct err *err);

/* Writes adapter_config.json into an existing folder. x->config has adapters, and x->base is the
 * name of the base. */
int peft_settings_write(const char *dir, const struct hf_export *x, struct err *err);

/* Misuse: an adapter of another type than LoRA, or with parts that siTrain does not compute. */
int peft_settings_refuse(const struct hf_keys *k, const char *dir, struct err *err);

/* Misuse: modules other than a classifier's head are trained whole. */
int peft_saved_refuse(const struct model_config *g, const struct hf_keys *k, const char *dir,
                      struct err *err);

/* True if an adapter folder has tensor t of g's final block: the head of a classifier, and the
 * pooler in front of it, because a base that is no classifier has no pooler. */
int peft_has(const struct model_config *g, size_t t);
