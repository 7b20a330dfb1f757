/* devices.c: what this machine has for siTrain: processor, memory, engines, ways to reach a disk,
 * kinds of devices, NVMe drives. Whatever can be tried is tried (a disk opens a small file, an
 * engine a small product), so that "available" is a fact. Drives are read about in /sys and /proc
 * alone: nothing is opened or written on them. */
#include "cmd/cmd.h"
#include "cmd/say/stop.h"
#include "cmd/run/train_opts.h"
#include "csd/csd.h"
#include "csd/disk.h"
#include "data/base/file.h"
#include "data/base/machine.h"
#include "kernels/matmul.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct devices_opts { const char *dir; };

static const struct opt_row rows[] = {
    { "dir", OPT_STRING, offsetof(struct devices_opts, dir), ".", .arg = "DIR",
      .help = "where to try the disks, with a file of 64K that is removed" },
    { 0 },
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

/* ---- small files of the kernel ---- */

/* The first line of a file, without blanks at its end; "" if it cannot be read. */
static const char *line_of(char *buf, size_t size, const char *path)
{
    FILE  *f = fopen(path, "r");
    size_t n;

    buf[0] = '\0';
    if (f && !fgets(buf, (int)size, f))
        buf[0] = '\0';
    if (f)
        fclose(f);
    for (n = strlen(buf); n && (buf[n - 1] == '\n' || buf[n - 1] == ' '); n--)
        buf[n - 1] = '\0';
    return buf;
}

/* ---- processor and memory ---- */

static int has_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = text; (p = strstr(p, word)); p += len)
        if ((p == text || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return 1;
    return 0;
}

static void print_cpu(void)
{
    static const char *const features[] = { "avx2", "fma", "f16c", "avx512f", "avx512bw",
                                            "avx512_vnni", "avx512_bf16", "amx_bf16" };
    char                     name[256], flags[8192];
    cpu_set_t                set;
    int                      threads = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);

    machine_cpu(name, sizeof name);
    machine_field(flags, sizeof flags, "/proc/cpuinfo", "flags");
    printf("Processor\n  %s, %d threads for this process\n  features:", name, threads);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (has_word(flags, features[i]))
            printf(" %s", features[i]);
    printf("\n");
}

static void print_memory(void)
{
    const char   *info = "/proc/meminfo";
    char          text[64], size[32];
    double total = strtod(machine_field(text, sizeof text, info, "MemTotal"), NULL) * 1024;
    double left = strtod(machine_field(text, sizeof text, info, "MemAvailable"), NULL) * 1024;
    struct rlimit lock;

    printf("\nMemory\n  %s", opt_size_text(size, sizeof size, total));
    printf(", %s available", opt_size_text(size, sizeof size, left));
    line_of(text, sizeof text, "/sys/fs/cgroup/memory.max");
    if (text[0] >= '0' && text[0] <= '9')
        printf(", limited to %s for this control group",
               opt_size_text(size, sizeof size, strtod(text, NULL)));
    if (!getrlimit(RLIMIT_MEMLOCK, &lock) && lock.rlim_cur != RLIM_INFINITY)
        printf("\n  %s may be locked, as registered buffers are",
               opt_size_text(size, sizeof size, (double)lock.rlim_cur));
    printf("\n");
}

/* ---- engines ---- */

static void print_engine(size_t e)
{
    static const enum dtype dtypes[] = { DT_F32, DT_BF16 };

    for (size_t i = 0; i < 2; i++) {
        struct matmul_shape shape = {
            .form = MATMUL_NN, .m = 64, .n = 64, .k = 64, .ab_dt = dtypes[i]
        };
        struct matmul      *mm = NULL;
        char                why[256] = "";
        int                 rc =
            matmul_open(&mm, (enum matmul_engine)e, &shape, 1, 1, why, sizeof why);

        printf("  %-9s %-5s %s\n", matmul_engine_name(e), dtype_name(dtypes[i]),
               rc ? why : matmul_describe(mm));
        matmul_close(rc ? NULL : mm);
    }
}

/* ---- disks and devices ---- */

/* Open a file of 64K in dir through the backend: its own words if it cannot. */
static void print_disk(const char *name, const char *path)
{
    struct disk_config cfg = { .path = path, .bytes = 65536, .create = 1, .depth = 4 };
    struct disk       *d = NULL;
    struct err         err = { 0 };
    char               notice[512] = "";
    int                rc = disk_open(&d, name, &cfg, notice, sizeof notice, &err);

    if (rc)
        printf("  %-9s not available: %s\n", name, err.text);
    else if (*notice)
        printf("  %-9s not available: %s\n", name, notice);
    else
        printf("  %-9s available, transfers aligned to %zu bytes\n", name, d->align);
    if (!rc)
        disk_close(d);
    unlink(path);
}

static void print_disks(const char *dir, const char *folder)
{
    char *path;

    printf("\nDisks (--disk), tried in %s\n", dir);
    for (size_t i = 0; disk_at(i); i++) {
        if ((path = file_path(NULL, "%s/%s", folder, disk_name(i))))
            print_disk(disk_name(i), path);
        free(path);
    }
}

static void print_csds(void)
{
    printf("\nComputational storage devices (--csd)\n");
    for (size_t i = 0; csd_at(i); i++)
        printf("  %-9s available, %s\n", csd_name(i), csd_at(i)->about);
}

/* ---- drives ---- */

/* The first mount point of /dev/NAME or a part of it; "" if there is none. */
static const char *mount_of(char *buf, size_t size, const char *name)
{
    FILE  *f = fopen("/proc/mounts", "r");
    char   device[288], *line = NULL;
    size_t room = 0, len = (size_t)snprintf(device, sizeof device, "/dev/%s", name);

    buf[0] = '\0';
    while (f && !buf[0] && getline(&line, &room, f) > 0)
        if (!strncmp(line, device, len) && (line[len] == ' ' || line[len] == 'p')) {
            const char *p = strchr(line, ' ');

            if (p)
                snprintf(buf, size, "%.*s", (int)strcspn(p + 1, " "), p + 1);
        }
    free(line);
    if (f)
        fclose(f);
    return buf;
}

static void print_drive(const char *name)
{
    char path[512], text[256], model[256], speed[64], width[64], size[32];

    snprintf(path, sizeof path, "/sys/block/%s/size", name);
    opt_size_text(size, sizeof size, strtod(line_of(text, sizeof text, path), NULL) * 512);
    snprintf(path, sizeof path, "/sys/block/%s/device/model", name);
    line_of(model, sizeof model, path);
    snprintf(path, sizeof path, "/sys/block/%s/device/device/current_link_speed", name);
    line_of(speed, sizeof speed, path);
    snprintf(path, sizeof path, "/sys/block/%s/device/device/current_link_width", name);
    line_of(width, sizeof width, path);
    printf("  /dev/%-10s %9s  %s", name, size, *model ? model : "unknown model");
    if (*speed)
        printf(", %s x%s", speed, width);
    mount_of(text, sizeof text, name);
    printf(*text ? ", in use at %s\n" : "\n", text);
}

static int is_nvme(const struct dirent *d)
{
    return !strncmp(d->d_name, "nvme", 4);
}

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

static void print_all(const char *dir, const char *folder)
{
    print_cpu();
    print_memory();
    printf("\nEngines (--blas)\n");
    for (size_t e = 0; matmul_engine_name(e); e++)
        print_engine(e);
    print_disks(dir, folder);
    print_csds();
    print_drives();
}

static int run(struct opt_line *line, struct err *err)
{
    struct devices_opts *o = line->options;
    struct file_new      scratch = { 0 };
    char                *path = file_path(err, "%s/.siTrain-devices", o->dir);
    int                  rc = -ENOMEM;

    stop_catch();
    if (path && (rc = file_new_scratch(&scratch, path, err)))
        rc = err_set(err, rc, "make a folder in %s: %s; name one that can be written with --dir",
                     o->dir, strerror(-rc));
    else if (path)
        print_all(o->dir, scratch.temp);
    file_new_abort(&scratch);
    free(path);
    if (!rc && stop_asked())
        rc = err_stopped(err, "stopped; nothing is left in %s", o->dir);
    return rc;
}

const struct opt_command devices_command = {
    .name = "devices",
    .usage = "[--dir DIR]",
    .summary = "what this machine has: processor, memory, engines, disks, CSDs, NVMe drives",
    .parts = parts,
    .size = sizeof(struct devices_opts),
    .run = run,
};
