/* probe.h: how long a step will take on this machine: `siTrain bench --only probe` measures the
 * parts of a small model's step, and they are made the whole model's by FLOPs, bytes and
 * parameters. */
#ifndef CMD_BENCH_PROBE_H
#define CMD_BENCH_PROBE_H

#include "cmd/bench/bench.h"
#include "offload/budget.h"

/* Seconds. computing: forward with what is recomputed, backward, the head; beside them the parts as
 * in docs/bench.md. */
struct probe {
    double               step;
    struct bench_figures parts;
    size_t               layers, tokens; // of the model that was measured
};

/* s: a session with its plan made. dir: the folder that RUN will stand in. Takes seconds; files are
 * made beside RUN and in --device's folders and removed. A failure with a sentence where it cannot
 * be measured. */
int probe_step(struct probe *out, const struct session *s, const struct budget *plan,
               const char *dir, struct err *err);

#endif
