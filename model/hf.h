/* hf.h: Hugging Face's GPT-2 folders: config.json and model.safetensors, read as a source of
 * parameters and written so that `transformers` loads them. Streams: never more than a piece of a
 * tensor in memory. */
#pragma once

#include "data/base/json.h"
#include "data/tensors/safetensors.h"
#include "model/arch.h"
#include "offload/run.h"

struct hf; // an open folder

/* Is there something of this name in dir? */
int hf_has(const char *dir, const char *name);
/* Is there a config.json in dir? */
int hf_is_folder(const char *dir);

/* Where there is nothing called `name`, and a model of the Hub may be: the end of a sentence, with
 * the command that makes a folder of it; else "". Returns out. */
enum { HF_HINT = 640 };
const char *hf_hub_hint(const char *name, char out[HF_HINT]);

/* Something that is known and none of ours: a folder with an adapter (PEFT), a GGUF file: misuse;
 * else 0. hf_other.c */
int hf_refuse_other(const char *path, struct err *err);

/* Read dir/config.json alone. Variants of GPT-2 that this program does not compute are refused,
 * naming the key. */
int hf_config(struct model_config *out, const char *dir, struct err *err);

/* What a classifier calls its labels (config.json's id2label, in order; LABEL_0... where it does
 * not say); n 0 for a language model. */
struct hf_labels { char **name; size_t n; };
int  hf_labels(struct hf_labels *out, const char *dir, struct err *err);
void hf_labels_free(struct hf_labels *l);
long hf_pad(const char *dir); // config.json's pad_token_id; -1 where it has none

/* What a folder says of texts that are generated, an object of the caller's: the ids of config.json
 * that begin, end and pad a text (null where it says that there is none), and all of
 * generation_config.json, which counts where both say it. hf_stops takes its eos_token_id; one that
 * is not below vocab is refused. */
int hf_generation(json_t **out, const char *dir, size_t vocab, struct err *err);
/* The ids that end a text: eos_token_id, none, one or a list, into out. where: for the sentence. */
enum { HF_STOPS = 31 };
int hf_stops(int32_t out[HF_STOPS], size_t *n, const json_t *generation, const char *where,
             struct err *err);

/* Open a folder: the config, and every tensor that it asks for, with or without "transformer."
 * before its name, or what a model was wrapped in ("_orig_mod.", "module."), of the right shape, in
 * F32, F16 or BF16; tensors of unknown names are refused.
 * Checksums of our own exports are verified, which reads all of them under the eyes of watch (or
 * NULL). */
int  hf_open(struct hf **out, const char *dir, const struct watch *watch, struct err *err);
void hf_close(struct hf *h); // NULL is fine
const struct model_config *hf_model(const struct hf *h);
uint32_t hf_sum(const struct hf *h); // safetensors' sum: of the tensors' checksums, and their names

/* The parameters by blocks, as fp32. Lives as long as h; one thread at a time. */
struct params_source hf_source(struct hf *h);

/* Copy the tokenizer's files in `from` (those that are there) into the folder `to`. *copied says
 * how many. `from` is a run's, filled by tokenizer_take: its files are not looked into, and links
 * are refused. */
int hf_copy_tokenizer(const char *from, const char *to, int *copied, struct err *err);

#define HF_SHARD_BYTES (UINT64_C(5) << 30) // where nothing else is asked for

struct hf_export {
    struct model_config    config;
    enum st_dtype        dtype;
    uint64_t             shard_bytes; // of tensors in a file, at most, but for one that is larger
                                      // alone; 0: all in model.safetensors
    struct params_source source;
    const char          *tokenizer;  // folder to copy tokenizer files from, or NULL
    int                  strange;    // it is no run's: tokenizer_take looks into its files
    char                *notice;     // then gets what that leaves out; or NULL
    size_t               notice_size;
    long                 endoftext;  // id of <|endoftext|>, or -1
    long                 begin;      // id of the token that begins a text, or -1
    const json_t        *generation; // of a language model: as hf_generation has it; NULL:
                                     // begin and endoftext
    const struct hf_labels *labels;  // of a classifier; NULL: LABEL_0, ...
    long                 pad;        // config.json's pad_token_id, or -1
    const struct watch  *watch;      // of parameters written, or NULL
};

/* Whether dir may be written: it does not exist, or is empty. */
int hf_export_check(const char *dir, struct err *err);
/* Write a complete folder under a name of its own next to dir, which hf_export_check accepts, then
 * rename it. The same parameters give the same model.safetensors. On failure nothing is left. */
int hf_export(const char *dir, const struct hf_export *x, struct err *err);
/* The same files into a folder that is there. */
int hf_export_into(const char *dir, const struct hf_export *x, struct err *err);

/* ---- what reading (hf.c) and writing (hf_export.c) have in common; nobody else uses it ---- */

enum { HF_NAME_BYTES = 128, HF_PATH_BYTES = 4096 };

int hf_path(char *out, const char *dir, const char *name, struct err *err); // of HF_PATH_BYTES

const char *hf_class(const struct model_config *g); // its architecture
const char *hf_problem_type(const struct model_config *g);

/* Label i's name: a string (a number is taken as its text); LABEL_i where there are no names.
 * Malloced; NULL: none for i, or no memory. */
char *hf_label_name(const json_t *names, size_t i);
