/* probe.c: this machine's own figures, for a `siTrain plan` without --machine: a child process
 * (`siTrain bench --probe`) measures in some seconds what a prediction of this one model goes by,
 * and says it as lines of a machine_file. */
#include "bench/bench.h"

#include "kernels/matmul.h"
#include "offload/devices/devices.h"
#include "plan/machine_file.h"
#include "run/loop/training.h"

#include <libgen.h>
#include <signal.h>
#include <sys/stat.h>

/* ---- the child ---- */

/* Where a device's file is or will be. */
static int arg_device(struct bench_args *a, const char *path, struct err *err)
{
    char       *copy = strdup(path);
    struct stat st;
    int         there = !stat(path, &st);

    bench_arg(a, "--device=", copy && !(there && S_ISDIR(st.st_mode)) ? dirname(copy) : path);
    free(copy);
    return there && S_ISBLK(st.st_mode)
               ? err_set(err, -ENOTSUP,
                         "the block device %s is not written for a plan; siTrain bench --device "
                         "%s measures it, and writes over it", path, path)
               : 0;
}

/* Links that are modelled stay out of it: they are reckoned with, not waited for. */
static void args_make(struct bench_args *a, const struct session *s, const struct model_opts *model,
                      const char *dir)
{
    const struct train_opts *o = &s->o;

    int real = !(disk_at((size_t)o->disk)->flags & DISK_FAKE);

    bench_words(a, BENCH_SELF " bench --probe --json=-");
    bench_arg(a, "--dir=", dir);
    bench_args_model(a, model, s->config.vocab, o);
    bench_words(a, "--csd-mem=%" PRIu64 " --mode=%s --disk=%s --dtype=%s --blas=%s --optimizer=%s",
                o->csd_mem, train_mode_name((size_t)o->mode),
                disk_name(real ? (size_t)o->disk : 0), dtype_name((size_t)o->dtype),
                matmul_engine_name((enum matmul_engine)o->blas),
                optim_name((enum optim_kind)o->optimizer));
    bench_words(a, "--dropout=%g", (double)training_options(s).model.dropout.attn);
    // the child's devices are real, but nothing of theirs is used
    if (o->device_in_ram || devices_fake(&s->run))
        bench_words(a, "--device-in-ram");
}

/* The child would not say why it does not work in a place that the run would be refused in, too. */
static int places_check(const struct session *s, const char *dir, struct err *err)
{
    const struct train_opts *o = &s->o;

    if (o->mode == RUN_MEM || devices_fake(&s->run))
        return 0;
    if (!o->device.n)
        return devices_place_check(dir, NULL, o->device_in_ram, err);
    int rc = 0;
    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = devices_place_check(o->device.item[i], "--device", o->device_in_ram, err);
    return rc;
}

/* ---- what it says ---- */

static int lines_take(struct machine_file *m, const json_t *lines, struct err *err)
{
    const json_t *line;
    size_t        i;
    int           rc = 0;

    *m = (struct machine_file){ 0 };
    json_array_foreach(lines, i, line)
        rc = rc ? rc : machine_file_take(m, json_string_value(json_array_get(line, 0)),
                                         json_string_value(json_array_get(line, 1)), err);
    return rc ? rc : machine_file_check(m, "the probe", err);
}

int probe_machine(struct machine_file *out, const struct session *s,
                  const struct model_opts *model, const char *dir, const struct watch *watch,
                  struct err *err)
{
    struct bench_args a = {.watch = watch};
    sigset_t          ends, before;
    json_t           *report = NULL;
    int               rc = places_check(s, dir, err);

    args_make(&a, s, model, dir);
    for (size_t i = 0; i < s->o.device.n && s->o.mode != RUN_MEM && !rc; i++)
        rc = arg_device(&a, s->o.device.item[i], err);
    // Ctrl-C ends the child, which removes its files; this process ends when it has
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    rc = rc ? rc : bench_child(&report, &a, NULL, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(a.words);
    rc = rc ? rc : lines_take(out, json_object_get(report, "machine_file"), err);
    json_decref(report);
    return rc;
}
