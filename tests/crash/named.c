/* named.c: see named.h. The copy has the run's id and states; its word is another one. */
#include "tests/crash/named.h"

#include "offload/devices/devices.h"
#include "run/folder/moved.h"
#include "tests/crash/bytes.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const copies[] = { "/sim/drive0/copy", "/sim/drive1/copy" };
static const char        copys[SUPERBLOCK_WORD] = "c0c0c0c0c0c0c0c0";

static int settle(void *ctx, struct err *err)
{
    (void)ctx, (void)err;
    return 0;
}

static void file_copy_sim(const char *from, const char *to)
{
    int    in = storage_find(from), out = storage_create(to, 0);
    size_t n = (size_t)storage_size(in);
    char  *bytes = must_alloc(NULL, n);

    assert(out >= 0 && storage_read(in, bytes, n, 0) == n);
    storage_write(out, bytes, n, 0);
    free(bytes);
}

int named_begin(const struct run_config *run, struct err *err)
{
    char              owner[SUPERBLOCK_WORD] = "", next[SUPERBLOCK_WORD] = "";
    struct run_config copy = *run;
    struct devices    d;

    for (size_t i = 0; i < run->n_devices; i++)
        file_copy_sim(run->device_paths[i], copies[i]);
    copy.device_paths = copies;
    copy.owner_next = copys;
    int rc = devices_open(&d, &copy, DEVICES_MEND, NULL, err);
    rc = rc ? rc : devices_take(&d, err);
    devices_close(&d);
    rc = rc ? rc : devices_open(&d, run, DEVICES_MEND, NULL, err);
    rc = rc ? rc : owner_take(&d, owner, next, settle, NULL, err);
    devices_close(&d);
    return rc;
}

/* Whether these settings take these devices: -EPROTO if they do, and the power is on. */
static int refuses(const struct run_config *run, const char *owner, const char *next,
                   const char *const *paths, const char *what, struct err *err)
{
    struct run_config cfg = *run;
    struct devices    d;

    cfg.owner = owner;
    cfg.owner_next = next;
    cfg.device_paths = paths;
    int taken = !devices_open(&d, &cfg, DEVICES_READ, NULL, err);
    devices_close(&d);
    if (!taken && err->text[0])
        return 0;
    printf("# named: %s\n", taken ? what : "devices are refused without a sentence");
    *err = (struct err){ 0 };
    return -EPROTO;
}

static int strangers_check(const struct run_config *run, struct err *err)
{
    int rc = refuses(run, run->owner, run->owner_next, copies, "the run takes its copy's", err);

    return rc ? rc : refuses(run, copys, "", run->device_paths, "the copy takes the run's", err);
}

int named_take(struct run_config *run, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
               struct err *err)
{
    struct devices d;
    int            rc;

    run->owner = owner;
    run->owner_next = next;
    if ((rc = strangers_check(run, err)))
        return rc;
    rc = devices_open(&d, run, DEVICES_MEND, NULL, err);
    rc = rc ? rc : owner_take(&d, owner, next, settle, NULL, err);
    devices_close(&d);
    return rc ? rc : strangers_check(run, err);
}
