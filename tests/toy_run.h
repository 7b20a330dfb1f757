/* toy_run.h: a run of the toy (toy.h) in a folder of its own: made, opened, and removed with its
 * folder. What fails, fails the test, with its sentence. */
#pragma once

#include "tests/toy.h"

struct toy { struct run_config cfg; struct err err; char *dir; };

/* rc is 0, or the test fails with t->err. */
void must(const struct toy *t, int rc);

/* A folder, its run.db, and what cfg says stored there; cfg's dir and log are set. */
void toy_make(struct toy *t, const struct run_config *cfg);
void toy_remove(struct toy *t);

struct stream *toy_open(struct toy *t);                     // run_train
void           toy_close(struct toy *t, struct stream *s);  // when all is committed

/* A step and its loss. */
double toy_train(struct toy *t, struct stream *s, uint64_t step);

/* toy_params_sum */
uint32_t toy_sum(struct toy *t);
