/* settings.c: formats keys and values, so that a caller needs one line per setting. */
#include "run/folder/settings.h"

#include <assert.h>
#include <stdarg.h>

static char *get(struct runlog *log, const char *format, va_list ap)
{
    char key[128], *text;

    vsnprintf(key, sizeof key, format, ap);
    return runlog_text(log, key, &text, NULL) ? NULL : text;
}

int settings_find(char **out, struct runlog *log, struct err *err, const char *key, ...)
{
    char    name[128];
    va_list ap;

    va_start(ap, key);
    vsnprintf(name, sizeof name, key, ap);
    va_end(ap);
    *out = NULL;
    int rc = runlog_text(log, name, out, err);
    if (rc)
        *out = NULL;
    return rc == -ENOENT ? 0 : rc;
}

char *settings_get(struct runlog *log, const char *key, ...)
{
    va_list ap;

    va_start(ap, key);
    char *text = get(log, key, ap);
    va_end(ap);
    return text;
}

int settings_has(struct runlog *log, const char *key, ...)
{
    va_list ap;

    va_start(ap, key);
    char *text = get(log, key, ap);
    va_end(ap);
    int found = text && *text;
    free(text);
    return found;
}

int settings_scan(struct runlog *log, const char *conversion, void *out, const char *key, ...)
{
    va_list ap;

    va_start(ap, key);
    char *text = get(log, key, ap);
    va_end(ap);
    int found = text && sscanf(text, conversion, out) == 1;
    free(text);
    return found;
}

int settings_set(struct runlog *log, struct err *err, const char *settings, ...)
{
    const char *between = strchr(settings, '\n') ? "\n" : "";
    va_list     ap;
    char       *text;
    int         rc = 0;

    va_start(ap, settings);
    int n = vasprintf(&text, settings, ap);
    va_end(ap);
    if (n < 0)
        return err_set(err, -ENOMEM, "out of memory for a setting of the run");
    for (char *rest = text, *value, *key; rest && !rc;) {
        value = strsep(&rest, between);
        key = strsep(&value, "=");
        assert(value); // a value in several settings has no line break
        rc = runlog_set(log, key, value, err);
    }
    free(text);
    return rc;
}

int settings_take(struct runlog *log, struct runlog *from, const char *key, struct err *err)
{
    char *value;
    int   rc = settings_find(&value, from, err, "%s", key);

    if (!rc)
        rc = value ? runlog_set(log, key, value, err) : runlog_unset(log, key, err);
    free(value);
    return rc;
}
