/* names.c: see names.h. A folder is a prefix of the paths in it. */
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

    assert(slash);
    snprintf(out, PATH_BYTES, "%.*s", (int)(slash - path), path);
}

static int is_in(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return !strncmp(path, dir, n) && path[n] == '/';
}

static const char *change_path(const struct name_change *c)
{
    return c->to[0] ? c->to : c->from;
}

static int is_change_in(const struct name_change *c, const char *dir)
{
    char parent[PATH_BYTES];

    names_parent(parent, change_path(c));
    return !strcmp(parent, dir);
}

static int list_index(const struct name_list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->at[i].path, path) == 0)
            return (int)i;
    return -1;
}

int names_find(const struct names *n, const char *path)
{
    int i = list_index(&n->now, path);

    return i < 0 ? -1 : n->now.at[i].file;
}

const char *names_of(const struct names *n, int file)
{
    for (size_t i = 0; i < n->now.n; i++)
        if (n->now.at[i].file == file)
            return n->now.at[i].path;
    return NULL;
}

const char *names_next(const struct names *n, const char *dir, size_t *at)
{
    char parent[PATH_BYTES];

    while (*at < n->now.n) {
        const char *path = n->now.at[(*at)++].path;

        names_parent(parent, path);
        if (!strcmp(parent, dir))
            return path;
    }
    return NULL;
}

/* What is in the folder `from` is in `to` from here on. */
static void move_inner(struct name_list *l, const char *from, const char *to)
{
    for (size_t i = 0; i < l->n; i++) {
        char path[2 * PATH_BYTES];

        if (!is_in(l->at[i].path, from))
            continue;
        snprintf(path, sizeof path, "%s%s", to, l->at[i].path + strlen(from));
        assert(strlen(path) < PATH_BYTES);
        memcpy(l->at[i].path, path, strlen(path) + 1);
    }
}

static void list_apply(struct name_list *l, const struct name_change *c)
{
    int i = c->from[0] ? list_index(l, c->from) : -1, other = list_index(l, c->to);

    if (c->from[0] && c->to[0] && !c->exchanges)
        move_inner(l, c->from, c->to);
    if (i >= 0 && c->exchanges && other >= 0)
        l->at[i].file = l->at[other].file;
    else if (i >= 0)
        l->at[i] = l->at[--l->n];
    if (!c->to[0])
        return;
    i = list_index(l, c->to);
    if (i < 0) {
        l->at = must_alloc(l->at, (l->n + 1) * sizeof *l->at);
        i = (int)l->n++;
        l->at[i] = (struct name){ .file = 0 };
        snprintf(l->at[i].path, PATH_BYTES, "%s", c->to);
    }
    l->at[i].file = c->file;
}

void names_change(struct names *n, const char *from, const char *to, int file, int exchanges)
{
    struct name_change c = { .file = file, .exchanges = exchanges };

    assert(strlen(from) < PATH_BYTES && strlen(to) < PATH_BYTES);
    snprintf(c.from, PATH_BYTES, "%s", from);
    snprintf(c.to, PATH_BYTES, "%s", to);
    for (size_t i = 0; from[0] && to[0] && i < n->n_changes; i++)
        if (is_in(change_path(&n->changes[i]), from)) {
            fprintf(stderr, "%s moves to %s before %s is durable\n", from, to,
                    change_path(&n->changes[i]));
            abort();
        }
    n->changes = must_alloc(n->changes, (n->n_changes + 1) * sizeof c);
    n->changes[n->n_changes++] = c;
    list_apply(&n->now, &c);
}

void names_sync(struct names *n, const char *dir)
{
    size_t left = 0;

    for (size_t i = 0; i < n->n_changes; i++) {
        if (is_change_in(&n->changes[i], dir))
            list_apply(&n->durable, &n->changes[i]);
        else
            n->changes[left++] = n->changes[i];
    }
    n->n_changes = left;
}

/* Is its folder there, and all that this is in? A first folder is in none. */
static int is_reached(const struct name_list *l, const char *path)
{
    char dir[PATH_BYTES];

    names_parent(dir, path);
    return !dir[0] || (list_index(l, dir) >= 0 && is_reached(l, dir));
}

static void drop_unreached(struct name_list *l)
{
    for (size_t i = 0; i < l->n;)
        if (is_reached(l, l->at[i].path))
            i++;
        else
            l->at[i] = l->at[--l->n];
}

void names_land(struct names *n, size_t (*first)(void *ctx, size_t n), void *ctx)
{
    for (size_t i = 0; i < n->n_changes; i++) {
        char   dir[PATH_BYTES];
        size_t those = 0;

        names_parent(dir, change_path(&n->changes[i]));
        for (size_t k = 0; k < i && those == 0; k++)
            those = (size_t)is_change_in(&n->changes[k], dir); // its turn was before
        if (those > 0)
            continue;
        for (size_t k = i; k < n->n_changes; k++)
            those += (size_t)is_change_in(&n->changes[k], dir);
        size_t kept = first(ctx, those);
        for (size_t k = i; k < n->n_changes && kept > 0; k++)
            if (is_change_in(&n->changes[k], dir)) {
                list_apply(&n->durable, &n->changes[k]);
                kept--;
            }
    }
    n->n_changes = 0;
    drop_unreached(&n->durable);
    free(n->now.at);
    n->now = list_copy(&n->durable);
}
