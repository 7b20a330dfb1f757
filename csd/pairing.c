/* pairing.c: reads from /sys which card belongs to which drive. A device's resolved path there
 * names every bridge from the root port down to it: the more bridges two devices share, the nearer
 * they are. A common root port alone is no switch: transfers then go through the processor. */
#include "csd/pairing.h"

#include "data/file/file.h"
#include "data/base/grow.h"
#include "data/base/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <libgen.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* xocl's table of cards has a SmartSSD's user function under this number. */
static const char SMARTSSD_VENDOR[] = "0x10ee", SMARTSSD_USER[] = "0x6988";

enum { STACKED = 8 }; // most layers of block devices on block devices

/* The resolved path of something under sys, malloced; NULL if it does not exist. */
static char *resolved(const char *sys, const char *folder, const char *name)
{
    char *path = file_path(NULL, "%s/%s/%s", sys, folder, name);
    char *real = path ? file_real(path) : NULL;

    free(path);
    return real;
}

/* The text behind `key` in the line of a file that begins with it, or "". */
static const char *field(char *buf, size_t size, const char *place, const char *file,
                         const char *key)
{
    char *path = file_path(NULL, "%s/%s", place, file);

    buf[0] = '\0';
    if (path)
        machine_field(buf, size, path, key);
    free(path);
    return buf;
}

/* ---- PCI addresses in paths ---- */

/* Length of the function's address with which s begins, like 0000:3b:00.1 or 10000:01:00.0; or
 * 0. */
static size_t address_length(const char *s)
{
    static const char form[] = "hh:hh.d";
    size_t            domain = strspn(s, "0123456789abcdef");
    const char       *at = s + domain;

    if (domain < 4 || *at++ != ':')
        return 0;
    for (size_t i = 0; form[i]; i++, at++)
        if (form[i] == 'h' ? !isxdigit((unsigned char)*at)
                           : form[i] == 'd' ? *at < '0' || *at > '7' : *at != form[i])
            return 0;
    return (*at == '/' || *at == '\0') && (size_t)(at - s) < PCI_ADDRESS ? (size_t)(at - s) : 0;
}

/* Finds the last function in a path, and cuts the path behind it. 0 if there is none. */
static int address_last(char *path, char address[PCI_ADDRESS])
{
    size_t length = 0;
    char  *end = path;

    for (char *s = path; (s = strchr(s, '/')); ) {
        size_t n = address_length(++s);
        if (n) {
            length = n;
            end = s + n;
        }
    }
    *end = '\0';
    snprintf(address, PCI_ADDRESS, "%.*s", (int)length, end - length);
    return length > 0;
}

/* Counts the bridges below a root port that both paths go through. Root ports are directly below a
 * host bridge (pci0000:3a, also a second one behind a volume controller). */
static int bridges_in_common(const char *a, const char *b)
{
    int n = 0, root = 1;

    while (*a == '/' && *b == '/') {
        size_t length = strcspn(++a, "/");

        if (strncmp(a, ++b, length) != 0 || (b[length] != '/' && b[length] != '\0'))
            break;
        if (address_length(a) && a[length] && b[length]) { // a bridge that both have
            n += !root;
            root = 0;
        } else if (!strncmp(a, "pci", 3)) {
            n = 0;
            root = 1;
        }
        a += length;
        b += length;
    }
    return n;
}

/* ---- cards ---- */

/* Whether P2P is enabled. Sizes are in bytes: of the window now (bar), of the window to come
 * (rbar), of a window that holds the card's memory (exp_bar), and of the mapped part (remap). */
static enum card_p2p p2p_of(const char *config)
{
    static const char *const key[] = { "bar:", "rbar:", "exp_bar:", "remap:" };
    enum { BAR, RBAR, EXPECTED, REMAP, KEYS };
    long long size[KEYS];
    char      text[64];

    for (int i = 0; i < KEYS; i++)
        size[i] = *machine_field(text, sizeof text, config, key[i]) ? strtoll(text, NULL, 10) : -1;
    if (size[BAR] < 0)
        return P2P_UNKNOWN;
    if (size[RBAR] > size[BAR])
        return P2P_REBOOT;
    return size[BAR] != size[EXPECTED] || (size[REMAP] > 0 && size[REMAP] != size[BAR]) ? P2P_OFF
                                                                                        : P2P_ON;
}

/* Whether a folder is this subdevice of the driver: its name is NAME.u.NUMBER, or its file `name`
 * says so. */
static int is_subdevice(const char *place, const char *folder, const char *name)
{
    char   text[64], *path = file_path(NULL, "%s/%s", place, folder);
    size_t n = strlen(name);
    int    is = !strncmp(folder, name, n) && folder[n] == '.';

    if (path && !is && folder[0] != '.')
        is = !strcmp(field(text, sizeof text, path, "name", ""), name);
    free(path);
    return is;
}

static void card_ask(struct card *c)
{
    DIR           *d = opendir(c->place);
    struct dirent *e;
    char          *path;

    c->p2p = P2P_UNKNOWN;
    field(c->xclbin, sizeof c->xclbin, c->place, "xclbinuuid", "");
    if (strspn(c->xclbin, "0-") == strlen(c->xclbin)) // nothing is loaded
        *c->xclbin = '\0';
    while (d && (e = readdir(d))) {
        if (is_subdevice(c->place, e->d_name, "rom") &&
            (path = file_path(NULL, "%s/%s", c->place, e->d_name))) {
            field(c->model, sizeof c->model, path, "VBNV", "");
            free(path);
        } else if (is_subdevice(c->place, e->d_name, "p2p") &&
                   (path = file_path(NULL, "%s/%s/config", c->place, e->d_name))) {
            c->p2p = p2p_of(path);
            free(path);
        }
    }
    file_close_dir(d);
}

/* Adds the function `name` to p's cards if it is a card's. */
static int card_look(struct pairing *p, const char *name, struct err *err)
{
    char         text[64], *place = resolved(p->sys, "bus/pci/devices", name);
    char        *driver = place ? resolved(place, ".", "driver") : NULL;
    struct card  c = { .place = place };
    int          bound = driver && !strcmp(basename(driver), "xocl");
    int          bare = place && !driver &&
               !strcmp(field(text, sizeof text, place, "vendor", ""), SMARTSSD_VENDOR) &&
               !strcmp(field(text, sizeof text, place, "device", ""), SMARTSSD_USER);

    free(driver);
    int is_card = (bound || bare) && address_last(place, c.address);
    int rc = is_card ? grow(&p->cards, &p->cards_room, p->n_cards + 1, sizeof c, "cards", err) : 0;
    if (is_card && bound)
        card_ask(&c);
    if (is_card && !rc)
        p->cards[p->n_cards++] = c;
    else
        free(place);
    return rc;
}

/* ---- drives ---- */

/* The path of the controller of a namespace, malloced. If a subsystem has several paths, the
 * namespace is in none of them; the subsystem's folder then has the controllers. The answer is
 * known only if there is one. */
static char *controller_place(const char *sys, const char *name, char address[PCI_ADDRESS])
{
    char          *place = resolved(sys, "block", name), *found = NULL, other[PCI_ADDRESS];
    struct dirent *e;
    DIR           *d;
    int            n = 0;

    if (!place || address_last(place, address))
        return place;
    free(place);
    place = resolved(sys, "block", name);
    d = place ? opendir(dirname(place)) : NULL;
    while (d && (e = readdir(d))) {
        char *at = !strncmp(e->d_name, "nvme", 4) ? resolved(place, ".", e->d_name) : NULL;

        if (at && address_last(at, other) && n++ == 0) {
            memcpy(address, other, sizeof other);
            found = at;
        } else {
            free(at);
        }
    }
    file_close_dir(d);
    free(place);
    if (n == 1)
        return found;
    free(found);
    return NULL;
}

/* Finds the cards nearest to a drive. *card: the first of these, or -1. *bridges: how near. Returns
 * how many cards are equally near. */
static int nearest_card(const struct pairing *p, const struct drive *d, int *card, int *bridges)
{
    int n = 0;

    *card = -1;
    *bridges = 0;
    for (size_t i = 0; i < p->n_cards; i++) {
        int common = bridges_in_common(p->cards[i].place, d->place);

        if (common > *bridges) {
            *card = (int)i;
            *bridges = common;
            n = 1;
        } else if (common > 0 && common == *bridges) {
            n++;
        }
    }
    return n;
}

/* Another drive that is nearer to the card than this many bridges, or NULL. */
static const struct drive *nearer_drive(const struct pairing *p, int card, int bridges)
{
    for (size_t i = 0; i < p->n_drives; i++)
        if (bridges_in_common(p->cards[card].place, p->drives[i].place) > bridges)
            return &p->drives[i];
    return NULL;
}

/* The card of a drive, or -1 and a sentence. */
static int judge(const struct pairing *p, const struct drive *d, struct err *err)
{
    int                 card, bridges, n = nearest_card(p, d, &card, &bridges);
    const struct drive *nearer = n == 1 ? nearer_drive(p, card, bridges) : NULL;

    if (n == 0)
        err_set(err, -ENODEV, "no accelerator card is behind the same PCIe switch as the drive %s "
                "(%s); %zu %s seen", d->name, d->address, p->n_cards,
                p->n_cards == 1 ? "card was" : "cards were");
    else if (n > 1)
        err_set(err, -ENODEV, "%d accelerator cards are equally near to the drive %s (%s), %s is "
                "one of them: say which one it is", n, d->name, d->address,
                p->cards[card].address);
    else if (nearer)
        err_set(err, -ENODEV, "the accelerator card %s is nearer to the drive %s (%s) than to %s "
                "(%s)", p->cards[card].address, nearer->name, nearer->address, d->name, d->address);
    return n == 1 && !nearer ? card : -1;
}

static int drive_look(struct pairing *p, const char *name, struct err *err)
{
    struct drive d = { 0 };
    size_t       n = strlen(name) + 1;

    if (n > sizeof d.name || !(d.place = controller_place(p->sys, name, d.address)))
        return 0;
    memcpy(d.name, name, n);
    int rc = grow(&p->drives, &p->drives_room, p->n_drives + 1, sizeof d, "drives", err);
    if (rc)
        free(d.place);
    else
        p->drives[p->n_drives++] = d;
    return rc;
}

/* ---- the drive of a path ---- */

/* Follows a block device down: from a partition to its disk, from a mapped device to what it is
 * made of. 1: followed; 0: it is a disk; -ENODEV: it is on several, *n of them. */
static int follow(char **place, int *n)
{
    char          *part = file_path(NULL, "%s/partition", *place), *below = NULL;
    char          *slaves = file_path(NULL, "%s/slaves", *place);
    struct dirent *e;
    struct stat    st;
    DIR           *d = NULL;

    *n = 0;
    if (part && !stat(part, &st)) {
        below = strdup(dirname(*place));
        *n = 1;
    } else if (slaves && (d = opendir(slaves))) {
        while ((e = readdir(d)))
            if (e->d_name[0] != '.' && (*n)++ == 0)
                below = resolved(slaves, ".", e->d_name);
        closedir(d);
    }
    free(part);
    free(slaves);
    if (*n == 1 && below) {
        free(*place);
        *place = below;
        return 1;
    }
    free(below);
    return *n ? -ENODEV : 0;
}

static const struct drive *drive_of(const struct pairing *p, const char *path, struct err *err)
{
    char  number[32], *place;
    dev_t dev = 0;
    int   n = 0, more = 1, rc = file_drive(path, &dev);

    if (rc) {
        err_set(err, rc, "look for the drive of %s: %s", path, strerror(-rc));
        return NULL;
    }
    snprintf(number, sizeof number, "%u:%u", major(dev), minor(dev));
    if (!(place = resolved(p->sys, "dev/block", number))) {
        err_set(err, -ENODEV, "%s lies on no block device (number %s), so its drive is not known",
                path, number);
        return NULL;
    }
    for (int i = 0; more > 0 && i < STACKED; i++)
        more = follow(&place, &n);
    const char         *name = basename(place);
    const struct drive *found = NULL;
    for (size_t i = 0; !more && i < p->n_drives; i++)
        if (!strcmp(p->drives[i].name, name))
            found = &p->drives[i];
    if (more)
        err_set(err, -ENODEV, "%s lies on %s, which is made of %d drives, not of one", path, name,
                n);
    else if (!found)
        err_set(err, -ENODEV, "%s lies on %s, which is no NVMe drive on the PCI bus", path, name);
    free(place);
    return found;
}

/* ---- reading all ---- */

static int any(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Takes nvme0n1, but neither nvme0c1n1, which is one of several paths to it, nor a partition. */
static int is_namespace(const struct dirent *e)
{
    const char *at = e->d_name;

    if (strncmp(at, "nvme", 4) != 0)
        return 0;
    at += 4 + strspn(at + 4, "0123456789");
    return *at == 'n' && at[1] && at[1 + strspn(at + 1, "0123456789")] == '\0';
}

/* Calls `look` for each name in a folder of sys, in order. If the folder does not exist, there are
 * none. */
static int each(struct pairing *p, const char *folder, int (*filter)(const struct dirent *),
                int (*look)(struct pairing *p, const char *name, struct err *err), struct err *err)
{
    struct dirent **found = NULL;
    char           *path = file_path(err, "%s/%s", p->sys, folder);
    int             n = path ? scandir(path, &found, filter, versionsort) : 0;
    int             rc = path ? 0 : -ENOMEM;

    for (int i = 0; i < n; i++) {
        rc = rc ? rc : look(p, found[i]->d_name, err);
        free(found[i]);
    }
    free(found);
    free(path);
    return rc;
}

int pairing_read(struct pairing *p, const char *sys, struct err *err)
{
    *p = (struct pairing){ .sys = strdup(sys) };
    int rc = p->sys ? 0 : err_set(err, -ENOMEM, "out of memory");

    rc = rc ? rc : each(p, "bus/pci/devices", any, card_look, err);
    rc = rc ? rc : each(p, "block", is_namespace, drive_look, err);
    for (size_t i = 0; i < p->n_drives && !rc; i++)
        p->drives[i].card = judge(p, &p->drives[i], NULL);
    return rc;
}

void pairing_release(struct pairing *p)
{
    for (size_t i = 0; i < p->n_cards; i++)
        free(p->cards[i].place);
    for (size_t i = 0; i < p->n_drives; i++)
        free(p->drives[i].place);
    free(p->cards);
    free(p->drives);
    free(p->sys);
    *p = (struct pairing){ 0 };
}

int pairing_card(const struct pairing *p, const char *path, const struct card **card,
                 struct err *err)
{
    const struct drive *d = drive_of(p, path, err);
    int                 i = d ? judge(p, d, err) : -1;

    if (i < 0)
        return -ENODEV;
    *card = &p->cards[i];
    return 0;
}

void card_p2p_words(const struct card *c, char *buf, size_t size)
{
    static const char *const words[] = {
        [CARD_NO_DRIVER] = "its driver xocl is not loaded: install XRT's package",
        [P2P_UNKNOWN] = "it has no memory window for P2P: its platform is missing or another",
        [P2P_REBOOT] = "P2P comes with the next warm reboot",
        [P2P_ON] = "P2P is on",
    };

    if (c->p2p == P2P_OFF)
        snprintf(buf, size, "P2P is off: as root, xbutil configure --device %s --p2p enable",
                 c->address);
    else
        snprintf(buf, size, "%s", words[c->p2p]);
}
