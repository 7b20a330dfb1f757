/* names.c: see names.h. */
#include "tests/crash/names.h"

#include "tests/crash/bytes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct name_list list_copy(const struct name_list *l)
{
    return (struct name_list){ must_copy(l->at, l->n * sizeof *l->at), l->n };
}

void names_copy(struct names *to, const struct names *from)
{
    to->now = list_copy(&from->now);
    to->durable = list_copy(&from->durable);
    to->n_changes = from->n_changes;
    to->changes = must_copy(from->changes, from->n_changes * sizeof *from->changes);
}

void names_free(struct names *n)
{
    free(n->now.at);
    free(n->durable.at);
    free(n->changes);
    *n = (struct names){ 0 };
}

void names_parent(char out[PATH_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');

    assert(slash && strlen(path) < PATH_BYTES);
    snprintf(out, PATH_BYTES, "%.*s", (int)(slash - path), path);
}

static int is_at(const struct name *e, const struct name_at *at)
{
    return e->at.dir == at->dir && strcmp(e->at.name, at->name) == 0;
}

static int list_index(const struct name_list *l, const struct name_at *at)
{
    for (size_t i = 0; at->name[0] && i < l->n; i++)
        if (is_at(&l->at[i], at))
            return (int)i;
    return -1;
}

/* Where a path's last name is; its folder has to be there. 0: it is not. */
static int resolve(struct name_at *out, const struct name_list *l, const char *path)
{
    *out = (struct name_at){ .dir = NO_FILE };
    while (*path == '/') {
        size_t n = strcspn(++path, "/");
        int    i = out->name[0] ? list_index(l, out) : 0;

        if (n == 0) // a slash at the end
            break;
        if (i < 0)
            return 0;
        assert(n < NAME_BYTES);
        out->dir = out->name[0] ? l->at[i].file : NO_FILE;
        snprintf(out->name, NAME_BYTES, "%.*s", (int)n, path);
        path += n;
    }
    return out->name[0] != '\0';
}

int names_find(const struct names *n, const char *path)
{
    struct name_at at;
    int            i = resolve(&at, &n->now, path) ? list_index(&n->now, &at) : -1;

    return i < 0 ? NO_FILE : n->now.at[i].file;
}

static const struct name *name_of(const struct name_list *l, int file)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i].file == file)
            return &l->at[i];
    return NULL;
}

/* The path of a name, whose folders are all there. */
static const char *path_of(const struct name_list *l, const struct name *e)
{
    static char path[PATH_BYTES];
    size_t      at = sizeof path - 1;

    path[at] = '\0';
    for (; e; e = e->at.dir == NO_FILE ? NULL : name_of(l, e->at.dir)) {
        size_t n = strlen(e->at.name);

        assert(at > n);
        at -= n + 1;
        path[at] = '/';
        memcpy(path + at + 1, e->at.name, n);
    }
    return path + at;
}

const char *names_of(const struct names *n, int file)
{
    const struct name *e = name_of(&n->now, file);

    return e ? path_of(&n->now, e) : NULL;
}

size_t names_count(const struct names *n, int file)
{
    size_t count = 0;

    for (size_t i = 0; i < n->now.n; i++)
        count += n->now.at[i].file == file;
    return count;
}

const char *names_next(const struct names *n, const char *dir, size_t *at)
{
    int folder = names_find(n, dir);

    while (*at < n->now.n) {
        const struct name *e = &n->now.at[(*at)++];

        if (folder != NO_FILE && e->at.dir == folder)
            return path_of(&n->now, e);
    }
    return NULL;
}

int names_may_have(const struct names *n, int file)
{
    if (name_of(&n->now, file) || name_of(&n->durable, file))
        return 1;
    for (size_t i = 0; i < n->n_changes; i++)
        if (n->changes[i].file == file)
            return 1;
    return 0;
}

static void list_apply(struct name_list *l, const struct name_change *c)
{
    int i = list_index(l, &c->from), other = list_index(l, &c->to);

    if (i >= 0 && c->exchanges && other >= 0)
        l->at[i].file = l->at[other].file;
    else if (i >= 0)
        l->at[i] = l->at[--l->n];
    if (!c->to.name[0])
        return;
    i = list_index(l, &c->to);
    if (i < 0) {
        l->at = must_alloc(l->at, (l->n + 1) * sizeof *l->at);
        i = (int)l->n++;
        l->at[i] = (struct name){ .at = c->to };
    }
    l->at[i].file = c->file;
}

void names_change(struct names *n, const char *from, const char *to, int file, int exchanges)
{
    struct name_change c = { .file = file, .exchanges = exchanges };
    int                known = (!from[0] || resolve(&c.from, &n->now, from)) &&
                (!to[0] || resolve(&c.to, &n->now, to));

    assert(known);
    n->changes = must_alloc(n->changes, (n->n_changes + 1) * sizeof c);
    n->changes[n->n_changes++] = c;
    list_apply(&n->now, &c);
}

/* The folder whose sync makes it durable. */
static int change_dir(const struct name_change *c)
{
    return c->to.name[0] ? c->to.dir : c->from.dir;
}

void names_sync(struct names *n, int dir)
{
    size_t left = 0;

    for (size_t i = 0; i < n->n_changes; i++) {
        if (change_dir(&n->changes[i]) == dir)
            list_apply(&n->durable, &n->changes[i]);
        else
            n->changes[left++] = n->changes[i];
    }
    n->n_changes = left;
}

/* Is its folder there? A first one is in none. 1: something was dropped. */
static int drop_unreached(struct name_list *l)
{
    int dropped = 0;

    for (size_t i = 0; i < l->n;)
        if (l->at[i].at.dir == NO_FILE || name_of(l, l->at[i].at.dir)) {
            i++;
        } else {
            l->at[i] = l->at[--l->n];
            dropped = 1;
        }
    return dropped;
}

void names_land(struct names *n, size_t (*first)(void *ctx, size_t n), void *ctx)
{
    for (size_t i = 0; i < n->n_changes; i++) {
        int    dir = change_dir(&n->changes[i]);
        size_t those = 0;

        for (size_t k = 0; k < i && those == 0; k++)
            those = change_dir(&n->changes[k]) == dir; // its turn was before
        if (those > 0)
            continue;
        for (size_t k = i; k < n->n_changes; k++)
            those += change_dir(&n->changes[k]) == dir;
        size_t kept = first(ctx, those);
        for (size_t k = i; k < n->n_changes && kept > 0; k++)
            if (change_dir(&n->changes[k]) == dir) {
                list_apply(&n->durable, &n->changes[k]);
                kept--;
            }
    }
    n->n_changes = 0;
    while (drop_unreached(&n->durable))
        ;
    free(n->now.at);
    n->now = list_copy(&n->durable);
}
