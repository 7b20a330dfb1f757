/* plan_machine.c: `siTrain plan --machine FILE --compare`: what a step would take in every mode
 * that has devices, and the rows that --json has of the one that is planned (plan_time.c). All
 * that is printed comes from the JSON. */
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "plan/forecast.h"

/* The modes in the papers' order; the last one is that with compressed gradients. */
static const int modes[] = { RUN_BASE, RUN_SU, RUN_SUO, TRAIN_SU_O_C };
enum { MODES = sizeof modes / sizeof *modes };

static json_t *row_of(const char *mode, const struct forecast *f)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:{s:f, s:f, s:f, s:f}}",
                     "mode", mode, "step", f->own.step, "forward", f->own.forward, "backward",
                     f->own.backward, "F", f->F, "B", f->B, "T_opt", f->update, "T_grad",
                     f->gradient, "T_swap", f->wire, "turns", "forward", f->turns.forward,
                     "backward", f->turns.backward, "update", f->turns.update, "step",
                     f->turns.step);
}

static int predict(json_t *rows, const struct session *s, int mode, double compress,
                   const struct forecast_machine *m, struct err *err)
{
    struct forecast f;
    int             rc = forecast_step(&f, s, mode, compress, m, err);
    int             sparse = mode == RUN_SUO && compress > 0;

    if (!rc)
        json_array_append_new(
            rows, row_of(train_mode_name(sparse ? TRAIN_SU_O_C : (size_t)mode), &f));
    return rc;
}

/* Of the first row, which is base. */
static void speedups_add(json_t *rows)
{
    double  base = json_num(json_array_get(rows, 0), "step"),
            base_turns = json_num(json_object_get(json_array_get(rows, 0), "turns"), "step");
    json_t *row;
    size_t  i;

    json_array_foreach(rows, i, row) {
        json_t *turns = json_object_get(row, "turns");

        bench_put(row, "speedup", base / json_num(row, "step"));
        bench_put(turns, "speedup", base_turns / json_num(turns, "step"));
    }
}

int plan_machine(json_t **out, const struct session *s, const struct forecast_machine *m,
                 int compare, struct err *err)
{
    const struct model_config *g = &s->config;
    json_t                  *rows = json_array();
    double                   c = s->o.compress;
    int                      rc = 0;

    for (size_t i = 0; i < MODES && compare && !rc; i++)
        rc = modes[i] == TRAIN_SU_O_C
                 ? predict(rows, s, RUN_SUO, c > 0 ? c : TRAIN_COMPRESS, m, err)
                 : predict(rows, s, modes[i], 0, m, err);
    if (!rc && !compare)
        rc = predict(rows, s, s->o.mode, c, m, err);
    if (!rc && compare)
        speedups_add(rows);
    *out = rc ? NULL
              : json_pack("{s:s, s:s, s:f, s:{s:I, s:I, s:I, s:I}, s:I, s:I, s:I, s:O}",
                          "about", "siTrain plan", // the mark of output.c
                          "machine", m->m->name, "flops", m->m->flops, "model", "parameters",
                          (json_int_t)arch_total(g), "n_layer", (json_int_t)g->n_layer, "n_embd",
                          (json_int_t)g->n_embd, "vocab", (json_int_t)g->vocab, "tokens",
                          (json_int_t)(s->o.batch * s->o.seq * s->o.grad_accum), "devices",
                          (json_int_t)(s->o.mode == RUN_MEM ? 0 : s->run.n_devices),
                          "ranks", (json_int_t)(s->ranks.size > 1 ? s->ranks.size : 1),
                          "predictions", rows);
    json_decref(rows);
    return rc;
}

/* ---- for people ---- */

void plan_machine_print(const json_t *found)
{
    static const struct bench_column own[] = {
        {"mode", "mode", NULL, 0}, {"step", "a step, s", "%.4g", 1},
        {"forward", "forward", "%.4g", 1}, {"backward", "backward", "%.4g", 1},
        {"speedup", "speed-up", "%.2f", 1}, {"T_opt", "T_opt", "%.4g", 1},
        {"T_swap", "T_swap", "%.4g", 1}, {"T_grad", "T_grad", "%.4g", 1},
        {"F", "F", "%.4g", 1}, {"B", "B", "%.4g", 1}, {0}};
    static const struct bench_column in_turn[] = {
        {"mode", "mode", NULL, 0}, {"step", "a step, s", "%.4g", 1},
        {"forward", "forward", "%.4g", 1}, {"backward", "backward", "%.4g", 1},
        {"update", "update", "%.4g", 1}, {"speedup", "speed-up", "%.2f", 1}, {0}};
    const json_t *rows = json_object_get(found, "predictions");
    json_t       *turns = json_array(), *row, *copy;
    const char   *name = json_str(found, "machine");
    size_t        i;

    json_array_foreach(rows, i, row) {
        copy = json_copy(json_object_get(row, "turns"));
        json_object_set(copy, "mode", json_object_get(row, "mode"));
        json_array_append_new(turns, copy);
    }
    printf("\nTime on %.0f device%s of %s (predicted from what describes it: nothing was "
           "measured)\n", json_num(found, "devices"), json_num(found, "devices") > 1 ? "s" : "",
           *name ? name : "the machine");
    bench_table(rows, own, NULL);
    printf("  forward has the updates behind which it runs; T_opt, T_swap, T_grad: updates, reads "
           "of parameters,\n  writes of gradients, each by itself; F, B: computing\n");
    printf("\nThe same with phases one after the other, as ZeRO-Infinity and Smart-Infinity have "
           "them\n");
    bench_table(turns, in_turn, NULL);
    json_decref(turns);
}
