/* base_folder.h: the base of a run that is read where it lies (--base-in-place): its folder, what
 * the run keeps of its files, and whether they are still the same. Calls return 0 or -errno. */
#pragma once

#include "model/file/peft.h"
#include "run/folder/session.h"

/* Stores the folder of the model that adapters belong to, in place or not. An exported adapter
 * names it. NULL: the model is no folder's. */
int base_folder_store(struct session *s, const char *dir, struct err *err);

/* Says in a notice if an adapter's folder was trained on another base than that in the folder
 * `base`, with which it was opened. */
void base_folder_other(const struct events *events, const struct peft *p, const char *adapter,
                       const char *base);

/* Refuses --base-in-place for a new run that does not begin with a folder. base: that of the model;
 * NULL: there is none. */
int base_folder_refuse(const struct lora_opts *o, const char *base, struct err *err);

/* True if the run in this folder has a base in place. Looks into its run.db for a moment. */
int base_folder_is_in_place(const char *run);

/* Takes --base of a command that goes on with a run, or reads one: where its base is now. Misuse if
 * the base is not in place. NULL: it was not given. dir is borrowed. */
int base_folder_named(struct session *s, const char *dir, struct err *err);

/* Opens the folder as s->base, without a look at what is in its files. Does nothing if the base is
 * not in place, or is open. */
int base_folder_look(struct session *s, const char *dir, struct err *err);

/* Of a new run: opens the folder, looks at the values of its frozen blocks, which `source` has, and
 * stores the checksums of its files. */
int base_folder_make(struct session *s, const char *dir, const struct params_source *source,
                     struct err *err);

/* Of a run whose parameters are read: opens the base where it is, or in s->base_dir if that is
 * given. A file of the same size, time and inode is taken as it is; of any other the checksum is
 * computed. keeps: the run goes on, and from now on its base is in that folder. -ESTALE: a file is
 * another one, and the sentence names it. */
int base_folder_open(struct session *s, int keeps, struct err *err);

/* Opens the base and computes all checksums. */
struct base_folder_sums { size_t files; uint64_t bytes; };
int base_folder_check(struct session *s, struct base_folder_sums *out, struct err *err);
