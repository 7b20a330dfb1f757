/* devices.c: lists what this machine has for siTrain: processor, memory, engines, disk backends,
 * kinds of devices, accelerator cards, NVMe drives. Whatever can be tried is tried (a disk opens a
 * small file, an engine runs a small product), so that "available" is a fact. Cards and drives are
 * looked up in /sys and /proc only; they are not opened or written. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "csd/csd.h"
#include "csd/disk/disk.h"
#include "csd/pairing.h"
#include "data/file/file.h"
#include "data/base/machine.h"
#include "kernels/product/matmul.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

struct devices_opts { const char *dir; };

static const struct opt_row rows[] = {
    { "dir", OPT_STRING, offsetof(struct devices_opts, dir), ".", .arg = "DIR",
      .help = "Folder to try the disks in, with a 64K file that is removed" },
    { 0 },
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

static void print_cpu(void)
{
    static const char *const features[] = { "avx2", "fma", "f16c", "avx512f", "avx512bw",
                                            "avx512_vnni", "avx512_bf16", "amx_bf16" };
    char                     name[256], word[32], flags[8192] = " ";

    machine_cpu(name, sizeof name);
    machine_field(flags + 1, sizeof flags - 2, "/proc/cpuinfo", "flags");
    printf("Processor\n  %s, %d threads for this process\n  features:", name, machine_cpus());
    strcat(flags, " ");
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        snprintf(word, sizeof word, " %s ", features[i]);
        if (strstr(flags, word))
            printf(" %s", features[i]);
    }
    printf("\n");
}

static void print_memory(void)
{
    const char   *info = "/proc/meminfo";
    char          text[64];
    double total = strtod(machine_field(text, sizeof text, info, "MemTotal"), NULL) * 1024;
    double left = strtod(machine_field(text, sizeof text, info, "MemAvailable"), NULL) * 1024;
    struct rlimit lock;

    printf("\nMemory\n  %s", SIZE_TEXT(total));
    printf(", %s available", SIZE_TEXT(left));
    machine_field(text, sizeof text, "/sys/fs/cgroup/memory.max", "");
    if (text[0] >= '0' && text[0] <= '9')
        printf(", limited to %s for this control group", SIZE_TEXT(strtod(text, NULL)));
    if (!getrlimit(RLIMIT_MEMLOCK, &lock) && lock.rlim_cur != RLIM_INFINITY)
        printf("\n  %s may be locked, as registered buffers are", SIZE_TEXT(lock.rlim_cur));
    printf("\n");
}

static void print_engine(size_t e, enum dtype dtype)
{
    struct matmul_shape shape = { .form = MATMUL_NN, .m = 64, .n = 64, .k = 64, .ab_dt = dtype };
    struct matmul      *mm;
    struct err          why;
    int                 rc = matmul_open(&mm, (enum matmul_engine)e, &shape, 1, 1, &why);

    printf("  %-9s %-5s %s\n", matmul_engine_name(e), dtype_name(dtype),
           rc ? why.text : mm->describe);
    matmul_close(mm);
}

/* Opens a file of 64K in dir with the backend, or prints the backend's own message. */
static void print_disk(const struct disk_ops *ops, const char *path)
{
    struct disk_config cfg = { .path = path, .bytes = 65536, .create = 1, .depth = 4 };
    struct disk       *d = NULL;
    struct err         err = { 0 };
    char               notice[512] = "";
    int                rc = disk_open(&d, ops, &cfg, notice, sizeof notice, &err);

    if (rc || *notice)
        say_line(stdout, "  %-9s not available: %s", ops->name, rc ? err.text : notice);
    else
        printf("  %-9s available, transfers aligned to %zu bytes\n", ops->name, d->align);
    if (!rc)
        disk_close(d);
    unlink(path);
}

/* Prints a drive. It is in use if it or a partition of it, /dev/NAMEp1, is mounted. */
static void print_drive(const char *name)
{
    static const char *const file[] = { "size", "device/model", "device/device/current_link_speed",
                                        "device/device/current_link_width" };
    enum { SIZE, MODEL, SPEED, WIDTH, FILES };
    char path[512], text[FILES][256], mount[512];

    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "/sys/block/%s/%s", name, file[i]);
        machine_field(text[i], sizeof text[i], path, "");
    }
    snprintf(path, sizeof path, "/dev/%s ", name);
    const char *at = machine_field(mount, sizeof mount, "/proc/mounts", path);
    path[strlen(path) - 1] = 'p';
    if (!*at && *machine_field(mount, sizeof mount, "/proc/mounts", path))
        at += strcspn(at, " ") + 1;
    say_line(stdout, "  /dev/%-10s %9s  %s%s%s%s%s%s%.*s", name,
             SIZE_TEXT(strtod(text[SIZE], NULL) * 512),
             *text[MODEL] ? text[MODEL] : "unknown model", *text[SPEED] ? ", " : "", text[SPEED],
             *text[SPEED] ? " x" : "", *text[SPEED] ? text[WIDTH] : "", *at ? ", in use at " : "",
             (int)strcspn(at, " "), at);
}

static int is_nvme(const struct dirent *d) { return !strncmp(d->d_name, "nvme", 4); }

static void print_drives(void)
{
    struct dirent **found = NULL;
    int             n = scandir("/sys/block", &found, is_nvme, versionsort);

    printf("\nNVMe drives\n");
    if (n <= 0)
        printf("  none seen\n");
    for (int i = 0; i < n; i++) {
        print_drive(found[i]->d_name);
        free(found[i]);
    }
    free(found);
}

/* Prints cards and their drives. Only libxrt knows what runs on them. */
static void print_cards(void)
{
    struct pairing p;
    char           words[256];

    printf("\nAccelerator cards\n");
    if (pairing_read(&p, "/sys", NULL))
        printf("  not looked at: out of memory\n");
    else if (p.n_cards == 0)
        printf("  none seen: no function of XRT's driver xocl, no SmartSSD without a driver; "
               "docs/hardware.md says what one needs\n");
    for (size_t i = 0; i < p.n_cards; i++) {
        const struct card *c = &p.cards[i];
        char               drives[512] = "";
        size_t             at = 0;

        card_p2p_words(c, words, sizeof words);
        for (size_t k = 0; k < p.n_drives; k++)
            if (p.drives[k].card == (int)i && at < sizeof drives)
                at += (size_t)snprintf(drives + at, sizeof drives - at, "%s/dev/%s",
                                       at ? ", " : "with ", p.drives[k].name);
        say_line(stdout, "  %s  %s, %s; %s; %s%s", c->address,
                 *c->model ? c->model : "unknown platform",
                 at ? drives : "with no drive behind its switch", words,
                 *c->xclbin ? "loaded with xclbin " : "no xclbin loaded, that is known", c->xclbin);
    }
    pairing_release(&p);
}

static void print_all(const char *dir, const char *folder)
{
    struct err why;
    char      *path;

    print_cpu();
    print_memory();
    printf("\nEngines (--blas)\n");
    for (size_t e = 0; matmul_engine_name(e); e++) {
        print_engine(e, DT_F32);
        print_engine(e, DT_BF16);
    }
    printf("\nDisks (--disk), tried in %s\n", dir);
    for (size_t i = 0; disk_at(i); i++) {
        if ((path = file_path(NULL, "%s/%s", folder, disk_name(i))))
            print_disk(disk_at(i), path);
        free(path);
    }
    printf("\nComputational storage devices (--csd)\n");
    for (size_t i = 0; csd_at(i); i++)
        if (csd_at(i)->usable && csd_at(i)->usable(&why))
            printf("  %-9s not available: %s\n", csd_name(i), why.text);
        else
            printf("  %-9s available, %s\n", csd_name(i), csd_at(i)->about);
    print_cards();
    print_drives();
}

static int run(struct opt_line *line, struct err *err)
{
    struct devices_opts *o = line->options;
    struct file_new      scratch = { 0 };
    char                *path = file_path(err, "%s/.siTrain-devices", o->dir);
    int                  rc = -ENOMEM;

    if (path && (rc = file_new_scratch(&scratch, path, err)))
        rc = err_set(err, rc, "make a folder in %s: %s; name one that can be written with --dir",
                     o->dir, strerror(-rc));
    else if (path)
        print_all(o->dir, scratch.temp);
    file_new_abort(&scratch);
    free(path);
    if (!rc && events_asked_to_stop(&say_events))
        rc = err_stopped(err, "stopped; nothing is left in %s", o->dir);
    return rc;
}

const struct opt_command devices_command = {
    .name = "devices",
    .usage = "[--dir DIR]",
    .summary = "list this machine's processor, memory, engines, disks, CSDs, cards and NVMe drives",
    .parts = parts, .size = sizeof(struct devices_opts), .run = run,
    .examples = { "siTrain devices",
                  "siTrain devices --dir /mnt/a" },
};
