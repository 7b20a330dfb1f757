/* prediction.h: what is predicted of a run, as the JSON value of `siTrain plan --json`. */
#pragma once

#include "data/json/json.h"
#include "plan/forecast.h"
#include "plan/mem_choice.h"

/* The machine, the model, and "predictions": a step in the session's mode, or (compare) in every
 * mode that has devices, with speed-ups over base. The caller frees *out; NULL after an error. */
int prediction_of(json_t **out, const struct session *s, const struct forecast_machine *m,
                  int compare, struct err *err);

/* Adds "rows" to *found, for rows that do not fill micro-batches: the seconds of a step and of
 * the run, and tokens a second without padding. computed, filled: as in rows_look.h. */
int prediction_add_rows(json_t *found, const struct session *s, const struct forecast_machine *m,
                        double computed, double filled, struct err *err);

/* Adds to *found: the session's step part by part and what sets its pace, what more memory, a drive
 * or a core would bring, the largest run that fits, how long drives last, and the same run in mode
 * mem. disk: free bytes of all drives together (0: not known). */
int prediction_add_step(json_t *found, const struct session *s, const struct forecast_machine *m,
                        const struct mem_choice *mem, uint64_t disk, struct err *err);
