/* probe.c: measures this machine for a `siTrain plan` without --machine: for some seconds, in a
 * child process, what a prediction of this model needs. */
#include "bench/bench.h"

#include "csd/disk/disk.h"
#include "model/lora/lora.h"
#include "offload/devices/devices.h"
#include "plan/machine_file.h"
#include "run/loop/training.h"

#include <libgen.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Sets the options that the figures depend on. Modelled links are left out: predictions compute
 * with them. */
static void options_set(struct train_opts *o, const struct session *s)
{
    int real = !(disk_at((size_t)s->o.disk)->flags & DISK_FAKE);

    o->batch = s->o.batch;
    o->seq = s->o.seq;
    o->threads = s->o.threads;
    o->csd_mem = s->o.csd_mem;
    o->mode = s->o.mode;
    o->disk = real ? s->o.disk : 0;
    o->dtype = s->o.dtype;
    o->blas = s->o.blas;
    o->optimizer = s->o.optimizer;
    o->dropout = (double)training_options(s).model.dropout.attn;
}

/* The folder where a device's file is or will be, malloced. */
static char *folder_of(const char *path, struct err *err)
{
    char       *copy = strdup(path), *dir = NULL;
    struct stat st;
    int         there = !stat(path, &st);

    if (there && S_ISBLK(st.st_mode))
        err_set(err, -ENOTSUP, "the block device %s is not written for a plan; siTrain bench "
                "--device %s measures it, and writes over it", path, path);
    else if (!copy || !(dir = strdup(there && S_ISDIR(st.st_mode) ? path : dirname(copy))))
        err_set(err, -ENOMEM, "out of memory");
    free(copy);
    return dir;
}

static int places_set(struct opt_strings *devices, const struct session *s, const char *dir,
                      struct err *err)
{
    const struct train_opts *o = &s->o;
    int                      rc = 0;

    if (o->mode == RUN_MEM || devices_fake(&s->run))
        return 0;
    if (!o->device.n)
        return devices_place_check(dir, NULL, o->device_in_ram, err);
    devices->item = calloc(o->device.n, sizeof *devices->item);
    for (; devices->n < o->device.n && !rc; devices->n += !rc) {
        const char *path = o->device.item[devices->n];

        rc = devices_place_check(path, "--device", o->device_in_ram, err);
        if (!rc && !(devices->item[devices->n] = folder_of(path, err)))
            rc = -EINVAL;
    }
    return rc;
}

/* What the child leaves in memory that both share. */
struct found { struct machine_file machine; struct err why; };

static int measure(struct bench *b, void *ctx)
{
    struct found *f = ctx;

    return bench_save_machine(&f->machine, b, &f->why) != 0;
}

int probe_machine(struct machine_file *out, const struct session *s, const char *dir,
                  const struct watch *watch, struct err *err)
{
    struct bench_opts   o = { .dir = dir, .probe = 1, .rounds = 5 };
    struct bench        b = { .o = &o, .config = lora_base(&s->config), .adapted = s->config,
                              .seconds = 0.02 };
    struct bench_places places = { 0 };
    struct found       *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int                 rc = f == MAP_FAILED ? err_set(err, -errno, "out of memory") : 0;

    b.config.n_labels = 0; // layers do not depend on the head
    rc = rc ? rc : train_opts_default(&o.train, err);
    if (!rc)
        options_set(&o.train, s);
    rc = rc ? rc : places_set(&o.train.device, s, dir, err);
    rc = rc ? rc : bench_places_make(&places, &b, err);
    rc = rc ? rc : bench_apart(&b, measure, f, watch, err);
    if (rc > 0) {
        *err = f->why;
        rc = -EIO;
    }
    rc = rc ? rc : machine_file_check(&f->machine, "the probe", err);
    if (!rc)
        *out = f->machine;
    bench_places_remove(&places);
    train_opts_release(&o.train);
    if (f != MAP_FAILED)
        munmap(f, sizeof *f);
    return rc;
}
