/* trace_out.c: writes trace events as a JSON list. */
#include "report/trace.h"

#include <stdarg.h>

void trace_event(struct trace_out *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    json_t *event = json_vpack_ex(NULL, 0, fmt, ap);
    va_end(ap);
    fputs(o->begun ? ",\n" : "\n", o->file);
    o->begun = 1;
    json_dumpf(event, o->file, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    json_decref(event);
}
