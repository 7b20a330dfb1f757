/* trace_out.c: events as a list, and the texts in them. */
#include "report/trace.h"

#include <jansson.h>
#include <stdarg.h>

void trace_event(struct trace_out *o, const char *fmt, ...)
{
    va_list ap;

    fputs(o->begun ? ",\n" : "\n", o->file);
    o->begun = 1;
    va_start(ap, fmt);
    vfprintf(o->file, fmt, ap);
    va_end(ap);
}

const char *trace_quoted(char quoted[TRACE_TEXT], const char *text)
{
    json_t *s = json_string(text);
    size_t  n = s ? json_dumpb(s, quoted, TRACE_TEXT - 1, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : 0;

    json_decref(s);
    if (!n || n >= TRACE_TEXT)
        return "\"?\"";
    quoted[n] = '\0';
    return quoted;
}
