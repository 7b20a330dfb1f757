/* labels.c: names to JSON and back. */
#include "cmd/run/labels.h"

#include "cmd/run/settings.h"
#include "data/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int labels_store(struct runlog *log, const struct hf_labels *labels, struct err *err)
{
    json_t *list = json_array();
    char   *text = NULL;
    int     rc = 0;

    for (size_t i = 0; i < labels->n && !rc; i++)
        rc = json_array_append_new(list, json_string(labels->name[i]));
    if (!rc)
        text = json_dumps(list, JSON_COMPACT);
    rc = text ? settings_set(log, err, "config.labels=%s", text)
              : err_set(err, -EINVAL, "the labels' names cannot be stored: they must be UTF-8");
    free(text);
    json_decref(list);
    return rc;
}

int labels_load(struct hf_labels *out, struct runlog *log, const char *dir, size_t n,
                struct err *err)
{
    char       *text = settings_get(log, "config.labels"), what[4128];
    json_t     *list = NULL;
    const char *name;
    int         rc;

    *out = (struct hf_labels){ 0 };
    if (!text) // a language model's, or nobody named them
        return 0;
    snprintf(what, sizeof what, "%s/run.db: config.labels", dir);
    rc = json_parse(&list, text, strlen(text), what, err);
    if (!rc && json_array_size(list) != n)
        rc = err_set(err, -EBADMSG, "%s names %zu labels, but the model has %zu", what,
                     json_array_size(list), n);
    if (!rc && !(out->name = calloc(n + 1, sizeof *out->name)))
        rc = err_set(err, -ENOMEM, "%s: out of memory", what);
    for (; !rc && out->n < n; out->n++) {
        name = json_string_value(json_array_get(list, out->n));
        if (!name || !(out->name[out->n] = strdup(name)))
            rc = err_set(err, -EBADMSG, "%s: label %zu has no name", what, out->n);
    }
    if (rc)
        hf_labels_free(out);
    json_decref(list);
    free(text);
    return rc;
}
