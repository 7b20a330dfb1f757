/* topology.c: builds the tree of modelled links from options or a file. Each line of a file is a
 * node with its link to the node above, which must be on an earlier line. So there can be no
 * circles. */
#include "csd/topology.h"

#include "data/file/file.h"
#include "data/file/file_kind.h"
#include "data/base/grow.h"
#include "data/base/number.h"

enum { MOST_BYTES = 1 << 18, NAME_BYTES = 32, MOST_WORDS = 6, LEAST_WORDS = 5 };

#define BLANKS    " \t\r"
#define LINE_FORM "KIND NAME ABOVE UP DOWN [MICROSECONDS]"
#define HOST      "host" // the name of the root

enum kind { KIND_LINK, KIND_DRIVE, KIND_ENGINE, KIND_ACCELERATOR, KINDS };
static const char *const kind_names[KINDS] = {"link", "drive", "engine", "accelerator"};

struct node {
    enum kind    kind;
    char         name[NAME_BYTES];
    struct link *link;
};

struct topology {
    struct node      *node;        // (n) in the order of lines: each follows the one above it
    size_t            n, cap;
    struct link_ends *ends;        // (n_ends) of the devices
    size_t            n_ends;
    struct link     **accelerator; // (n_accelerators)
    size_t            n_accelerators, accelerator_cap;
};

/* The node of this kind and name, or NULL. */
static const struct node *node_find(const struct topology *t, enum kind kind, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->node[i].kind == kind && !strcmp(t->node[i].name, name))
            return &t->node[i];
    return NULL;
}

static int node_add(struct topology *t, enum kind kind, const char *name,
                    const struct link_rates *rates, struct link *above, struct err *err)
{
    int rc = grow(&t->node, &t->cap, t->n + 1, sizeof *t->node, "modelled links", err);

    if (!rc && kind == KIND_ACCELERATOR)
        rc = grow(&t->accelerator, &t->accelerator_cap, t->n_accelerators + 1,
                  sizeof(struct link *), "modelled links", err);
    if (rc)
        return rc;
    struct node *node = &t->node[t->n];
    *node = (struct node){ .kind = kind, .link = link_new(rates, above) };
    if (!node->link)
        return err_set(err, -ENOMEM, "out of memory for the modelled links");
    snprintf(node->name, sizeof node->name, "%s", name);
    t->n++;
    if (kind == KIND_ACCELERATOR)
        t->accelerator[t->n_accelerators++] = node->link;
    return 0;
}

/* ---- a line of a file ---- */

/* Whether text is the number of a device in its usual form: 3, not 03. */
static int is_number(const char *text)
{
    return strspn(text, "0123456789") == strlen(text) && strlen(text) < 8 &&
           (text[0] != '0' || !text[1]);
}

static int name_check(const struct topology *t, enum kind kind, const char *name, struct err *err)
{
    if (strlen(name) >= NAME_BYTES)
        return err_misuse(err, "the name %s is longer than %d characters", name, NAME_BYTES - 1);
    if ((kind == KIND_DRIVE || kind == KIND_ENGINE) && !is_number(name))
        return err_misuse(err, "%s %s: the number of a device is expected, from 0",
                          kind_names[kind], name);
    if (kind == KIND_LINK && !strcmp(name, HOST))
        return err_misuse(err, "a link cannot be called " HOST ": that is the root of all");
    if (node_find(t, kind, name))
        return err_misuse(err, "%s %s is there already", kind_names[kind], name);
    return 0;
}

/* Reads "2.4G" as bytes per second; "-" means unlimited. */
static int rate_parse(double *out, const char *text, struct err *err)
{
    *out = 0;
    if (!strcmp(text, "-"))
        return 0;
    if (!number_size(text, out) || !(*out >= 1 && *out < 0x1p62))
        return err_misuse(err, "%s: expected bytes a second, with K, M, G or T (powers of 1024), "
                          "or - for unlimited", text);
    return 0;
}

static int latency_parse(uint64_t *out, const char *text, struct err *err)
{
    double      us = 0;
    const char *end = number_decimal(text, &us);

    if (!end || *end || !(us <= 1e9))
        return err_misuse(err, "%s: expected a request's latency in microseconds", text);
    *out = (uint64_t)(us * 1e3);
    return 0;
}

static int line_add(struct topology *t, char **word, size_t n, struct err *err)
{
    enum kind          kind = KIND_LINK;
    const struct node *above = NULL;
    struct link_rates  rates = { 0 };

    while (kind < KINDS && strcmp(kind_names[kind], word[0]))
        kind++;
    if (kind == KINDS)
        return err_misuse(err, "%s: expected link, drive, engine or accelerator", word[0]);
    if (n < LEAST_WORDS || n > MOST_WORDS)
        return err_misuse(err, "%zu words where %d or %d are expected: " LINE_FORM, n, LEAST_WORDS,
                          MOST_WORDS);
    int rc = name_check(t, kind, word[1], err);
    if (!rc && strcmp(word[2], HOST) && !(above = node_find(t, KIND_LINK, word[2])))
        rc = err_misuse(err, "no link above this line is called %s; " HOST " is the root", word[2]);
    rc = rc ? rc : rate_parse(&rates.bytes_per_s[LINK_READ], word[3], err);
    rc = rc ? rc : rate_parse(&rates.bytes_per_s[LINK_WRITE], word[4], err);
    if (!rc && n == MOST_WORDS)
        rc = latency_parse(&rates.latency_ns, word[5], err);
    rates.shared = kind == KIND_DRIVE;
    return rc ? rc : node_add(t, kind, word[1], &rates, above ? above->link : NULL, err);
}

static int file_add(struct topology *t, const char *path, struct err *err)
{
    char      *text = NULL, *rest, *line, *at, *word[MOST_WORDS + 1];
    size_t     n = 0, number = 0;
    struct err why = { 0 };
    int        rc = file_read_whole(&text, &n, path, MOST_BYTES, &why);

    if (rc && !why.misuse)
        err_set(err, rc, "--topology: %s", why.text);
    else if (rc)
        rc = err_misuse(err, "--topology: %s; a resume with --topology none goes on without it",
                        why.text);
    else if ((rc = file_kind_check_bytes(text, n, path, FILE_FOR_OPTIONS, err)))
        ;
    else if (strlen(text) != n)
        rc = err_misuse(err, "--topology: there is a zero byte in %s: a text is expected", path);
    for (rest = text; !rc && (line = strsep(&rest, "\n"));) {
        number++;
        line[strcspn(line, "#")] = '\0';
        for (n = 0; n <= MOST_WORDS && (at = strsep(&line, BLANKS));)
            if (*at)
                word[n++] = at;
        rc = n ? line_add(t, word, n, &why) : 0;
        if (rc && why.misuse)
            err_misuse(err, "%s, line %zu: %s", path, number, why.text);
        else if (rc)
            err_set(err, rc, "%s", why.text);
    }
    free(text);
    return rc;
}

/* ---- the options' tree ---- */

/* The value for a device. A list that is too short has 0. */
static double value_of(const struct topology_values *v, size_t device)
{
    size_t i = v->n > 1 ? device : 0;

    return i < v->n ? (double)v->value[i] : 0;
}

static int values_check(const struct topology_values *v, const char *option, size_t n_devices,
                        struct err *err)
{
    return v->n <= 1 || v->n == n_devices
               ? 0 : err_misuse(err, "--%s has %zu values, and there %s %zu device%s: expected one "
                                "for all, or one for each; a resume changes it", option, v->n,
                                n_devices == 1 ? "is" : "are", n_devices,
                                n_devices == 1 ? "" : "s");
}

static int is_any(const struct topology_values *v)
{
    int any = 0;

    for (size_t i = 0; i < v->n; i++)
        any |= v->value[i] > 0;
    return any;
}

static int options_add(struct topology *t, const struct topology_config *cfg, size_t n_devices,
                       struct err *err)
{
    const double            bw = (double)cfg->host_bw;
    const struct link_rates host = { .bytes_per_s = { bw, bw } };
    char                    name[NAME_BYTES];
    int                     rc = values_check(&cfg->read_bw, "csd-read-bw", n_devices, err);

    rc = rc ? rc : values_check(&cfg->write_bw, "csd-write-bw", n_devices, err);
    rc = rc ? rc : node_add(t, KIND_LINK, "link", &host, NULL, err);
    for (size_t i = 0; i < n_devices + cfg->others && !rc; i++) {
        const struct link_rates drive = {
            .bytes_per_s = { value_of(&cfg->read_bw, i), value_of(&cfg->write_bw, i) },
            .shared = 1, .latency_ns = (uint64_t)(cfg->latency_us * 1e3),
        };

        snprintf(name, sizeof name, "%zu", i);
        rc = node_add(t, KIND_DRIVE, name, &drive, t->node[0].link, err);
    }
    return rc;
}

/* ---- the whole ---- */

/* Finds each device's drive and engine. An engine without a line is where its drive's link ends. */
static int ends_find(struct topology *t, const struct topology_config *cfg, size_t n_devices,
                     struct err *err)
{
    char name[NAME_BYTES];

    t->ends = calloc(n_devices + cfg->others + 1, sizeof *t->ends);
    if (!t->ends)
        return err_set(err, -ENOMEM, "out of memory for the modelled links");
    for (t->n_ends = 0; t->n_ends < n_devices + cfg->others; t->n_ends++) {
        int rc = 0;

        snprintf(name, sizeof name, "%zu", t->n_ends);
        const struct node *drive = node_find(t, KIND_DRIVE, name);
        const struct node *engine = node_find(t, KIND_ENGINE, name);

        if (!drive && t->n_ends >= n_devices) {
            rc = node_add(t, KIND_DRIVE, name, &(struct link_rates){ .shared = 1 }, NULL, err);
            drive = rc ? NULL : &t->node[t->n - 1];
            engine = NULL; // adding moved the nodes; it has no engine
        }
        if (rc)
            return rc;
        if (!drive)
            return err_misuse(err, "%s has no drive %s: there %s %zu device%s, and each is a line: "
                              "drive NUMBER ABOVE UP DOWN [MICROSECONDS]", cfg->file, name,
                              n_devices == 1 ? "is" : "are", n_devices,
                              n_devices == 1 ? "" : "s");
        t->ends[t->n_ends] = (struct link_ends){
            .drive = drive->link, .engine = engine ? engine->link : link_above(drive->link),
            .accelerator = t->accelerator, .n_accelerators = t->n_accelerators,
        };
    }
    return 0;
}

int topology_open(struct topology **out, const struct topology_config *cfg, size_t n_devices,
                  struct err *err)
{
    int by_file = cfg->file && *cfg->file;
    int by_options = cfg->host_bw || is_any(&cfg->read_bw) || is_any(&cfg->write_bw) ||
                     cfg->latency_us > 0;

    *out = NULL;
    if (by_file && by_options)
        return err_misuse(err, "--topology %s says what --link-bw, --csd-read-bw, --csd-write-bw "
                          "and --csd-latency say, too: give one of the two (0, or --topology "
                          "none, undoes what a run has)", cfg->file);
    if (!by_file && !by_options)
        return 0;
    struct topology *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, -ENOMEM, "out of memory for the modelled links");
    int rc = by_file ? file_add(t, cfg->file, err) : options_add(t, cfg, n_devices, err);
    rc = rc ? rc : ends_find(t, cfg, n_devices, err);
    if (rc) {
        topology_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void topology_close(struct topology *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n; i++)
        link_free(t->node[i].link);
    free(t->node);
    free(t->accelerator);
    free(t->ends);
    free(t);
}

const struct link_ends *topology_ends(const struct topology *t, size_t i)
{
    return t ? &t->ends[i] : NULL;
}

/* ---- the links that transfers use ---- */

size_t topology_links(const struct topology *t) { return t ? t->n : 0; }

/* Whether the path from `end` to the host uses the link `on`. */
static int is_on_way(const struct link *end, const struct link *on)
{
    while (end && end != on)
        end = link_above(end);
    return end != NULL;
}

void topology_load(double (*busy)[LINK_DIRS], const struct topology *t, size_t n,
                   const struct topology_load *load)
{
    for (size_t i = 0; i < topology_links(t); i++) {
        const struct link *l = t->node[i].link;
        double             up = link_rate(l, LINK_READ), down = link_rate(l, LINK_WRITE);
        double             part = 0, copies = 0; // part of the devices' bytes; accelerators

        for (size_t d = 0; d < n && t->node[i].kind != KIND_DRIVE; d++)
            part += is_on_way(t->ends[load->first + d].drive, l) / (double)n;
        for (size_t a = 0; a < t->n_accelerators && load->computed; a++)
            copies += is_on_way(t->accelerator[a], l);
        if (up > 0)
            busy[i][LINK_READ] += (load->up * part + load->down * copies) / up;
        if (down > 0)
            busy[i][LINK_WRITE] += (load->down * part + load->up * copies) / down;
    }
}
