/* classes.h: a classifier whose classes another one calls by the same names in another order: the
 * rows of its head are read in the order that is wanted. */
#ifndef CMD_RUN_CLASSES_H
#define CMD_RUN_CLASSES_H

#include "cmd/run/model_folder.h"

struct classes {
    struct hf_labels         names; // of the model's own classes, in its order
    size_t                  *place; // (n_labels): the row of the head that is class i
    const struct gpt_config *gpt;   // the model's
    struct params_source     body;
};

/* The classes of r, which was opened on `path` and has a head; in its own order until
 * classes_match. r stays open as long as c. Closed by classes_close also after a failure. */
int  classes_open(struct classes *c, const struct model_folder *r, const char *path,
                  struct err *err);
void classes_close(struct classes *c); // zeroed is fine

/* Does the model name its classes, or are they LABEL_0, LABEL_1...? */
int classes_named(const struct classes *c);

/* Take them in the order of `names`, one for each: 1 if the model has all of these names (case does
 * not matter), else 0 and they stay in its own order. */
int classes_match(struct classes *c, const char *const *names, size_t n);

/* The model's parameters with the head's rows in that order. Borrows c. */
struct params_source classes_source(const struct classes *c);

#endif
