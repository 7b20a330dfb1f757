/* newrun_check.c: makes every check of a new run that needs no folder, so that a refused run leaves
 * nothing behind. */
#include "run/newrun_check.h"

#include "comm/comm.h"
#include "offload/devices/devices.h"
#include "run/folder/base_folder.h"
#include "run/folder/creation.h"
#include "run/folder/output.h"
#include "run/folder/tensorboard.h"
#include "run/ranks/rank_places.h"
#include "run/snapshots/portions.h"
#include "run/texts/tokenise.h"

#include <sys/stat.h>

/* Check that a device exists, or that its parent folder does. */
static int check_device(const char *path, struct err *err)
{
    char        dir[SESSION_PATH];
    struct stat st;

    if (stat(path, &st) == 0)
        return 0;
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    if (errno == ENOENT && (!slash || stat(dir, &st) == 0))
        return 0;
    return err_name(err, errno, "--device %s: %s: a folder, a file or a block device is expected",
                    path, strerror(errno));
}

/* True if device i was already named and is not a folder. */
static int is_twice(const struct opt_strings *devices, size_t i)
{
    const char *name = devices->item[i];
    struct stat st;
    size_t      j = 0;

    while (strcmp(devices->item[j], name))
        j++;
    return j < i && (stat(name, &st) || !S_ISDIR(st.st_mode));
}

int newrun_names(const struct train_opts *o, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = output_check_name("--device", o->device.item[i], err);
    for (size_t i = 0; i < train_opts_acts(o) && !rc; i++)
        rc = output_check_name("--act-device", o->act_device.item[i], err);
    return rc || !tensorboard_is_named(o->tensorboard) ? rc
                                                       : output_check_events(o->tensorboard, err);
}

/* Check where the states would be stored, if they are stored at all. In mode mem, RUN's images may
 * be in RAM, because the states are there anyway. */
static int check_devices(const char *dir, const struct train_opts *o, struct err *err)
{
    int stored = o->mode != RUN_MEM && !(csd_at((size_t)o->csd)->flags & CSD_FAKE) &&
                 !(disk_at((size_t)o->disk)->flags & DISK_FAKE);
    int rc = newrun_names(o, err);

    if (!rc && stored && !o->device.n)
        rc = devices_place_check(dir, NULL, o->device_in_ram, err);
    for (size_t i = 0; i < o->device.n && !rc; i++) {
        const char *name = o->device.item[i];

        rc = check_device(name, err);
        if (!rc && is_twice(&o->device, i))
            rc = err_misuse(err, "--device %s was given twice: a file or a drive holds one device, "
                            "a folder any number", name);
        if (!rc && stored)
            rc = devices_place_check(name, "--device", o->device_in_ram, err);
    }
    for (size_t i = 0; i < train_opts_acts(o) && !rc && stored; i++) {
        const struct run_config cfg = { .device_paths = o->device.item,
                                        .n_devices = o->device.n,
                                        .force_device = o->force_device,
                                        .device_in_ram = o->device_in_ram };

        if (is_twice(&o->act_device, i))
            rc = err_misuse(err, "--act-device %s was given twice: a file or a drive holds one, a "
                            "folder any number", o->act_device.item[i]);
        rc = rc ? rc : devices_act_check(&cfg, o->act_device.item[i], err);
    }
    return rc;
}

uint64_t newrun_dev_rows(const struct newrun *n)
{
    uint64_t most = 0;

    for (size_t i = 0; i < n->n_examples; i++)
        if (!strncmp(n->examples[i].name, "dev", 3) && n->examples[i].rows > most)
            most = n->examples[i].rows;
    return most;
}

int newrun_has_data(const struct newrun *n) { return n->corpus && n->corpus->data.n; }

static int has_eval(const struct newrun *n)
{
    return (n->corpus && (n->corpus->eval_data.n || n->corpus->split > 0)) || newrun_dev_rows(n) ||
           (n->chat && (n->chat->eval.n || n->chat->split > 0));
}

static int check_masking(const struct newrun *n, uint64_t seq, struct err *err)
{
    struct masking m;
    int rc = n->line ? masking_opts_check(n->line, &n->o->mask, &n->config, err) : 0;

    if (rc || !arch_is_masked(&n->config) || !newrun_has_data(n))
        return rc;
    rc = masking_find(&m, &n->config, &n->o->mask, n->tokenizer, err);
    rc = rc ? rc : masking_framed(&m, &n->config, err);
    return rc || masking_room(&m, seq)
               ? rc
               : err_misuse(err, "--seq %" PRIu64 ": what the tokenizer puts around a row leaves "
                            "no room in it", seq);
}

/* --early-stopping needs evaluations. */
static int check_early(const struct newrun *n, struct err *err)
{
    if (!n->o->early_stopping)
        return 0;
    if (!has_eval(n))
        return err_misuse(err, "--early-stopping needs something to evaluate on: give %s FILE or "
                          "--eval-split PART",
                          n->examples || n->chat ? "--eval-file" : "--eval-data");
    if (n->o->eval_every || (n->chat && n->chat->evaluates_epochs))
        return 0;
    return err_misuse(err, "--early-stopping counts evaluations, and there would be one at the end "
                      "alone: give --eval-every N too");
}

int newrun_check(const struct newrun *n, struct err *err)
{
    uint64_t seq = n->o->seq ? n->o->seq : arch_usual_seq(&n->config);
    int      rc = creation_check(n->dir, err);

    rc = rc ? rc : base_folder_refuse(&n->o->lora, n->base, err);
    rc = rc ? rc : arch_check_head(&n->config, err);
    if (!rc && n->o->snapshot_every && n->o->snapshot_on == TRAIN_SNAPSHOTS_DEVICES)
        rc = portions_can(n->dir, err);
    rc = rc ? rc : check_devices(n->dir, n->o, err);
    rc = rc ? rc : rank_places_check(n->comm, n->o->device.item, n->o->device.n, err);
    if (!rc && !(n->comm && n->comm->rank)) // only rank 0 writes it
        rc = tensorboard_check(n->o->tensorboard, err);
    if (!rc && n->tokenizer)
        rc = tokenizer_expect(n->tokenizer, err);
    if (!rc && n->tokenizer && n->init && tokenizer_is_there(n->init))
        rc = tokenise_same(n->tokenizer, n->init, err);
    if (!rc && n->o->keep_best && !has_eval(n))
        rc = err_misuse(err, "--keep-best needs something to evaluate on: give %s FILE or "
                        "--eval-split PART",
                        n->examples || n->chat ? "--eval-file" : "--eval-data");
    rc = rc ? rc : check_early(n, err);
    rc = rc ? rc : check_masking(n, seq, err);
    if (!rc && n->corpus && n->comm && corpus_reads_input(n->corpus))
        rc = err_misuse(err, "- (standard input) reaches one process alone, and %zu train: give a "
                        "file", n->comm->size);
    return rc || !n->corpus
               ? rc
               : corpus_check(n->corpus, n->tokenizer, n->config.vocab, seq, n->events, err);
}
