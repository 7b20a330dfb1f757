/* fixture.c: a text index, one line "name f32|i32|text count" an array, an empty line, then the
 * arrays one after the other. */
#include "tests/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ARRAYS = 128 };

struct fixture {
    size_t n;
    struct { char name[64], kind[8]; size_t count, first; } array[MAX_ARRAYS];
    uint32_t *data;
};

struct fixture *fixture_open(const char *path)
{
    struct fixture *f = calloc(1, sizeof *f);
    FILE  *file = fopen(path, "rb");
    char   line[256];
    size_t total = 0;

    if (!f || !file)
        fail_msg("cannot open %s", path);
    while (fgets(line, sizeof line, file) && line[0] != '\n') {
        assert_true(f->n < MAX_ARRAYS);
        assert_int_equal(sscanf(line, "%63s %7s %zu", f->array[f->n].name,
                                f->array[f->n].kind, &f->array[f->n].count),
                         3);
        f->array[f->n].first = total;
        total += f->array[f->n++].count;
    }
    f->data = malloc(total * sizeof *f->data);
    assert_non_null(f->data);
    assert_int_equal(fread(f->data, sizeof *f->data, total, file), total);
    fclose(file);
    return f;
}

void fixture_close(struct fixture *f)
{
    if (!f)
        return;
    free(f->data);
    free(f);
}

static const void *find(const struct fixture *f, const char *name, size_t n, const char *kind)
{
    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->array[i].name, name) != 0)
            continue;
        assert_string_equal(f->array[i].kind, kind);
        if (n)
            assert_int_equal(f->array[i].count, n);
        return f->data + f->array[i].first;
    }
    fail_msg("the fixture has no array %s", name);
    return NULL;
}

const float *fixture_f32(const struct fixture *f, const char *name, size_t n)
{
    return find(f, name, n, "f32");
}

const int32_t *fixture_i32(const struct fixture *f, const char *name, size_t n)
{
    return find(f, name, n, "i32");
}

const char *fixture_text(const struct fixture *f, const char *name)
{
    return find(f, name, 0, "text");
}
