/* check_data.h: what `siTrain check` finds and how it says so, and its checks of the data that a
 * run was made with: tokens, examples, references, tokenizer. All else is check.c's. */
#pragma once

#include "offload/upkeep/recovery.h"
#include "run/folder/session.h"

struct check_opts {
    const char *what, *base;
    int         repair, disk, quiet, scrub;
    uint64_t    scrub_bw; // bytes per second; 0: no limit
};

struct check {
    const struct check_opts *o;
    const char              *disk; // from the options; NULL: the run's own
    struct session           s;
    int                      mend;
    uint64_t                 damaged, mended, bytes; // bytes read
    uint64_t                 denied; // parts that cannot be read now, which is no damage
    int                      others_damaged; // other ranks' folders, or differences
    struct recovery_position       place; // if there are several ranks and it is known
    int                      placed;
    int                      states_lost; // masters, moments or gradients are damaged
};

/* Says a sentence; check_damage counts it as damage. */
void check_remark(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void check_say(void *check, int is_damage, const char *sentence);
void check_damage(void *check, const char *sentence);
/* Says that a part cannot be read now, which is no damage. */
void check_denied(struct check *c, const char *sentence);
/* Prints a line of the table: a kind, how much there is of it, its bytes. */
void check_line(struct check *c, const char *kind, uint64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends a part's check. Errors other than damage end the whole check, and so does another process
 * that uses the run. Damage is reported, and the next part is checked. */
int check_part_over(struct check *c, int rc, struct err *err);

/* Checks source i of "data" or "eval", a MiB at a time. */
int check_tokens(struct check *c, const char *set, size_t i, struct err *err);
/* Check a file of RUN, if it is there: of examples, or log-probabilities of examples (name:
 * train, dev, ...); and the tokenizer. An error is damage, or ends the check (part_over). */
int check_examples(struct check *c, const char *name, struct err *err);
int check_reference(struct check *c, const char *name, struct err *err);
int check_tokenizer(struct check *c, struct err *err);
/* Opens the tokenizer of a folder and prints its line. *out stays NULL if its class is not
 * supported, which is no damage: a remark says so. */
int check_words(struct tokenizer **out, struct check *c, const char *path, struct err *err);

/* Check the folder, or GGUF file, that is named in place of a run (check_folder.c). */
int check_folder(struct check *c, struct err *err);
/* Reads what a model's folder has besides its parameters, as a reader would: a classifier's labels,
 * a language model's generation_config.json, and, if `words`, the files of the tokenizer. config
 * NULL: of an adapter's folder. */
int check_besides(const char *dir, const struct model_config *config, int words, struct err *err);
