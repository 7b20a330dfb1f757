/* superblock.c: packs superblocks, and reads and checks them. A superblock is lines of text that a
 * person can read, zeros, and a checksum of both.
 *
 * It is written in place, and a power cut may leave any 512 bytes of it as they were. So a word of
 * an owner changes the first 512 bytes alone: its lines have their own checksum, and the one at the
 * end stays that of the superblock without a word. */
#include "offload/layout/superblock.h"

#include "data/base/crc32c.h"

enum { SUPER_SECTOR = 512, SUPER_SUM = SUPERBLOCK_BYTES - 4 };

static const char super_magic[] = "siTrain device 1\n";

static void sum_put(char *page)
{
    uint32_t crc = crc32c(0, page, SUPER_SUM);

    memcpy(page + SUPER_SUM, &crc, 4);
}

/* Writes the lines without an owner's word. Returns their length. */
static size_t lines_put(char *page, const struct superblock *s)
{
    memset(page, 0, SUPERBLOCK_BYTES);
    return (size_t)snprintf(page, SUPER_SECTOR, "%srun %s\ndevice %u of %u\nbytes %llu\n%s%s%s",
                            super_magic, s->id, s->device, s->n_devices,
                            (unsigned long long)s->bytes, *s->layout ? "layout " : "", s->layout,
                            *s->layout ? "\n" : "");
}

void superblock_pack(void *page, const struct superblock *s)
{
    char  *p = page;
    size_t n = lines_put(p, s);

    sum_put(p);
    if (!*s->owner)
        return;
    n += (size_t)snprintf(p + n, SUPER_SECTOR - n, "owner %s\n", s->owner);
    snprintf(p + n, SUPER_SECTOR - n, "sum %08" PRIx32 "\n", crc32c(0, p, n));
}

/* Packs a superblock with an owner's word as an older version wrote it. */
static void pack_older(char *page, const struct superblock *s)
{
    size_t n = lines_put(page, s);

    snprintf(page + n, SUPER_SECTOR - n, "owner %s\n", s->owner);
    sum_put(page);
}

int superblock_present(const void *page) { return memcmp(page, "siTrain device ", 15) == 0; }

static int parse(const char *page, struct superblock *out)
{
    char text[SUPER_SECTOR]; // a foreign page may have no end of text
    unsigned long long bytes;

    memset(out, 0, sizeof *out);
    if (memcmp(page, super_magic, sizeof super_magic - 1) != 0)
        return -EBADMSG;
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, page + sizeof super_magic - 1);
    if (sscanf(text, "run %32s device %u of %u bytes %llu layout %16s",
               out->id, &out->device, &out->n_devices, &bytes, out->layout) < 4)
        return -EBADMSG;
    const char *owner = strstr(text, "\nowner ");
    if (owner)
        sscanf(owner, " owner %16s", out->owner);
    out->bytes = bytes;
    return 0;
}

int superblock_whole(const void *page)
{
    struct superblock s;
    char               expected[SUPERBLOCK_BYTES];
    uint32_t           crc;

    memcpy(&crc, (const char *)page + SUPER_SUM, 4);
    if (crc == crc32c(0, page, SUPER_SUM))
        return 1;
    if (parse(page, &s) || !*s.owner)
        return 0;
    superblock_pack(expected, &s);
    return !memcmp(page, expected, SUPERBLOCK_BYTES);
}

int superblock_read(const void *page, struct superblock *out)
{
    int rc = parse(page, out);

    return rc || superblock_whole(page) ? rc : -EBADMSG;
}

static int is_packed(const void *page, const struct superblock *s)
{
    char expected[SUPERBLOCK_BYTES];

    superblock_pack(expected, s);
    if (!memcmp(page, expected, SUPERBLOCK_BYTES))
        return 1;
    pack_older(expected, s);
    return *s->owner && !memcmp(page, expected, SUPERBLOCK_BYTES);
}

/* The rank in the four digits of an id. */
static unsigned long rank_of(const char *digits)
{
    return strtoul((char[]){ digits[0], digits[1], digits[2], digits[3], '\0' }, NULL, 16);
}

int superblock_swapped(char what[SUPERBLOCK_WHAT], const struct superblock *found,
                       const struct superblock *want)
{
    enum { RANK = 4, REST = 8 }; // the digits of an id that are the rank's (rank_id_of)
    int  others = strncmp(found->id + RANK, want->id + RANK, REST - RANK);
    char of[16] = "", not_of[16] = "";

    if (strncmp(found->id, want->id, RANK) || strcmp(found->id + REST, want->id + REST) ||
        (!others && found->device == want->device))
        return 0;
    if (others) {
        snprintf(of, sizeof of, " of rank %lu", rank_of(found->id + RANK));
        snprintf(not_of, sizeof not_of, " of rank %lu", rank_of(want->id + RANK));
    }
    snprintf(what, SUPERBLOCK_WHAT, "the states of device %" PRIu32 "%s of this run, not of device "
             "%" PRIu32 "%s: put the file of each device back in its place", found->device, of,
             want->device, not_of);
    return 1;
}

int superblock_check(const void *page, const struct superblock *want, const char *path,
                      struct err *err)
{
    struct superblock found;
    char              what[SUPERBLOCK_WHAT];

    if (!superblock_present(page))
        return err_set(err, -EBADMSG, "%s is not a siTrain device (no superblock at its start)",
                       path);
    if (memcmp(page, super_magic, sizeof super_magic - 1) != 0)
        return err_set(err, -EBADMSG, "%s was made by another version of siTrain", path);
    if (!superblock_whole(page))
        return err_set(err, -EBADMSG, "%s: the superblock is damaged (checksum differs)", path);
    if (is_packed(page, want))
        return 0;
    if (superblock_read(page, &found))
        return err_set(err, -EBADMSG,
                       "%s: the superblock is damaged (it is not as siTrain writes it)", path);
    if (!strcmp(found.id, want->id) && strcmp(found.layout, want->layout))
        return err_set(err, -EBADMSG, "%s was device %u of %u of this run at another time, before "
                       "siTrain reshard moved its states elsewhere", path, found.device,
                       found.n_devices);
    if (superblock_swapped(what, &found, want))
        return err_set(err, -EXDEV, "%s holds %s", path, what);
    return err_set(err, -EXDEV,
                   "%s belongs to another run: found run %s device %u of %u, expected run %s "
                   "device %u of %u", path, found.id, found.device, found.n_devices, want->id,
                   want->device, want->n_devices);
}
