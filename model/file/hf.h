/* hf.h: Hugging Face model folders: config.json and safetensors files. They are read as a source
 * of parameters, and written so that `transformers` loads them. A GGUF file may stand wherever a
 * folder is read: it has the sizes, the parameters and the tokenizer, too. Tensors are streamed:
 * only a piece of a tensor is in memory at a time. */
#pragma once

#include "data/json/json.h"
#include "data/tensors/safetensors.h"
#include "model/arch/arch.h"
#include "offload/run.h"

struct hf; // an open folder

/* True if dir has an entry of this name, or may have: if nobody could look, opening it says so. */
int hf_has(const char *dir, const char *name);
/* True if dir has a config.json, or this user may not look: opening it says so. True for a GGUF
 * file, too. */
int hf_is_folder(const char *dir);

/* Returns out. If no file is called `name` and `name` may be a model of the Hub, out is the end
 * of a message. It gives the command that makes a folder of that model. Otherwise out is "". */
enum { HF_HINT = 640 };
const char *hf_hub_hint(const char *name, char out[HF_HINT]);

/* Refuse known inputs of other kinds, in hf_other.c; 0 or a misuse. hf_refuse_other: an adapter
 * folder (peft.h) without a config.json, or a folder with a GGUF file alone. hf_refuse_adapter: any
 * adapter folder, where only a model will do. hf_refuse_exported: a folder with another
 * program's files of parameters alone. hf_refuse_quantized: a model with quantized
 * parameters; k: the config.json in dir. */
int hf_refuse_other(const char *path, struct err *err);
int hf_refuse_adapter(const char *path, struct err *err);
int hf_refuse_exported(const char *dir, struct err *err);
int hf_refuse_quantized(const char *dir, const struct hf_keys *k, struct err *err);

/* Reads dir/config.json alone. A variant that this program does not compute is refused, and the
 * message names the key. */
int hf_config(struct model_config *out, const char *dir, struct err *err);

/* The labels of a classifier: config.json's id2label, in order. Without it they are LABEL_0,
 * LABEL_1, ... A language model has n 0. Free them with hf_labels_free. */
struct hf_labels { char **name; size_t n; };
int  hf_labels(struct hf_labels *out, const char *dir, struct err *err);
void hf_labels_free(struct hf_labels *l);
int  hf_pad(long *pad, const char *dir, struct err *err); // config.json's pad_token_id; -1: none

/* Reads a folder's settings for generation into an object that the caller owns. It has the ids
 * of config.json that begin, end and pad a text (null: none), and all of generation_config.json.
 * If both files have a key, generation_config.json counts. An eos_token_id that is not below
 * vocab is refused. */
int hf_generation(json_t **out, const char *dir, size_t vocab, struct err *err);
/* Reads the ids that end a text from eos_token_id: none, one, or a list. where: the file, for
 * messages. */
enum { HF_STOPS = 31 };
int hf_stops(int32_t out[HF_STOPS], size_t *n, const json_t *generation, const char *where,
             struct err *err);

/* Opens a folder and checks every tensor that its config requires. A tensor must have the right
 * shape and be F32, F16 or BF16. Its name may lack "transformer.", or begin with a wrapper's
 * name ("_orig_mod.", "module."). Tensors of unknown names are refused. The checksums of this
 * program's own exports are verified, which reads all tensors. watch: is told of the progress;
 * may be NULL. */
int  hf_open(struct hf **out, const char *dir, const struct watch *watch, struct err *err);
/* hf_open without a look at data and without checksums: the caller compares the files itself. */
int  hf_open_known(struct hf **out, const char *dir, struct err *err);
void hf_close(struct hf *h); // NULL is allowed
const struct model_config *hf_model(const struct hf *h);
/* Its files: their tensors and bytes, and whether all of them have siTrain's checksums. */
struct hf_files { size_t tensors; uint64_t bytes; int summed; };
struct hf_files hf_files(const struct hf *h);
uint32_t hf_sum(const struct hf *h); // checksum of all tensors' checksums and names (safetensors.h)

/* The parameters by blocks, as fp32. h must outlive the source. Only one thread at a time may
 * read. */
struct params_source hf_source(struct hf *h);

/* Where the parameters lie: the tensor that has parameter `first` of a block, the number of that
 * parameter in the tensor, and how many follow it there in order. NULL: the model is a GGUF file,
 * whose tensors are not read in place. */
struct hf_place { const struct st_tensor *tensor; size_t in, n; };
const struct safetensors *hf_tensor_files(const struct hf *h);
struct hf_place           hf_place(const struct hf *h, size_t block, size_t first);

/* Copies the tokenizer files that exist in `from` to the folder `to`. *copied is their number.
 * `from` is a run's folder, filled by tokenizer_take. Its files are not checked again, and links
 * are refused. */
int hf_copy_tokenizer(const char *from, const char *to, int *copied, struct err *err);

#define HF_SHARD_BYTES (UINT64_C(5) << 30) // the default

struct hf_export {
    struct model_config    config;
    enum st_dtype        dtype;
    uint64_t             shard_bytes; // most bytes of tensors in one file; a larger tensor has a
                                      // file of its own. 0: all tensors in model.safetensors
    struct params_source source;
    const char          *tokenizer;  // folder of the tokenizer files, or NULL
    int                  strange;    // the folder is not a run's: tokenizer_take checks its files
    char                *notice;     // receives a note on the files that tokenizer_take leaves out;
                                     // or NULL
    size_t               notice_size;
    long                 endoftext;  // id of <|endoftext|>, or -1
    long                 begin;      // id of the token that begins a text, or -1
    const json_t        *generation; // a language model's settings, as from hf_generation; NULL:
                                     // from begin and endoftext
    const struct hf_labels *labels;  // a classifier's labels; NULL: LABEL_0, ...
    long                 pad;        // config.json's pad_token_id, or -1
    const char          *base;       // of a model with adapters: only these are written, as an
                                     // adapter folder (peft.h) that names this base; "": unknown.
                                     // NULL: the model
    const char          *base_sum;   // of the adapter's base (adapted.h); NULL: unknown
    const struct watch  *watch;      // is told of the parameters written; or NULL
};

/* Checks that dir may be written: it does not exist, or is empty. */
int hf_export_check(const char *dir, struct err *err);
/* Writes a complete folder under a temporary name next to dir, and renames it to dir. dir must
 * pass hf_export_check. The same parameters always give the same model.safetensors. After an
 * error nothing is left. */
int hf_export(const char *dir, const struct hf_export *x, struct err *err);
/* Writes these files into an existing folder. */
int hf_export_into(const char *dir, const struct hf_export *x, struct err *err);

/* ---- shared by reading (hf.c) and writing (hf_export.c); for these files alone ---- */

enum { HF_NAME_BYTES = 128, HF_PATH_BYTES = 4096 };

int hf_path(char *out, const char *dir, const char *name, struct err *err); // out has HF_PATH_BYTES

const char *hf_class(const struct model_config *g); // its "architectures" entry
const char *hf_problem_type(const struct model_config *g);

/* The name of label i, malloced: a string, or a number's text. Without names it is LABEL_i.
 * Returns NULL if names has none for i, or without memory. */
char *hf_label_name(const json_t *names, size_t i);
