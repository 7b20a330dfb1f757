/* trace.h: the spans of some steps on one clock, private to report/: trace_spans.c reads them
 * from run.db, trace.c writes them as Chrome's trace events (the document "Trace Event Format"),
 * which chrome://tracing and Perfetto open.
 *
 * Times are whole microseconds from the first span on. A finer time would be a decimal fraction,
 * which readers round each in their own way: slices that touch would overlap. */
#pragma once

#include "data/json/json.h"
#include "data/db/runlog.h"

struct trace_span {
    uint64_t step; // from 0
    char     phase[24];
    int      block, device; // device -1: the host
    uint64_t start, end;    // microseconds; end >= start
    uint64_t until;         // the end in nanoseconds of the same time
    uint64_t bytes, busy;   // busy: microseconds of it; SIZE_MAX: run.db does not say
    int      pid, tid;      // the track that trace.c put it on
};

struct trace {
    struct trace_span *span; // by start, and of those that start together the longest first
    size_t             spans;
    struct trace_steps { uint64_t first, last; } steps; // from 0
    int                on_host; // the host updates and commits itself (mode mem)
};

/* Reads the steps that `which` names ("A-B" or "A", from 1; NULL: the last ones), as far as run.db
 * has their spans whole. The caller frees t->span, also after an error. */
int trace_read(struct trace *t, struct runlog *log, const char *which, struct err *err);

/* The question for the spans of steps %llu to %llu. trace_read keeps its rows as the table `shown`,
 * for the counters, too: times as above, done being the end.
 *
 * Spans have the time since the machine's start. If a run was resumed, the rows of its processes,
 * which have one instant on both clocks, join the parts. Runs older than these rows are joined
 * where their clock went back. */
#define TRACE_SHOWN                                                                                \
    "WITH whole AS MATERIALIZED (SELECT * FROM whole_spans WHERE step BETWEEN %llu AND %llu),"     \
    " bounds AS (SELECT step, min(start_ns) AS begun, max(end_ns) AS ended FROM whole"             \
    " GROUP BY step),"                                                                             \
    " jumps AS (SELECT step, iif(begun < lag(begun) OVER o, lag(ended) OVER o - begun, 0) AS jump" \
    " FROM bounds WINDOW o AS (ORDER BY step)),"                                                   \
    " clocks AS (SELECT step, sum(jump) OVER (ORDER BY step) AS jumped FROM jumps),"               \
    " placed AS (SELECT whole.*, coalesce(unix_ns - clock_ns, jumped) AS lack"                     \
    " FROM whole JOIN clocks USING (step) LEFT JOIN processes USING (process)),"                   \
    " origin AS (SELECT min(start_ns + lack) AS at FROM placed)"                                   \
    " SELECT step, phase, " TRACE_PLACE("block") " AS block, "                                     \
    TRACE_PLACE("device") " AS device, (start_ns + lack - at) / 1000 AS start,"                    \
    " (max(start_ns, end_ns) + lack - at) / 1000 AS done,"                                         \
    " max(start_ns, end_ns) + lack - at AS until, bytes, busy_ns / 1000 AS busy"                   \
    " FROM placed, origin"
/* A bounded whole number of a row: a device, a block. -1 is none. */
#define TRACE_PLACE(column) "max(-1, min(10001, CAST(coalesce(" column ", -1) AS INTEGER)))"

enum { TRACE_HOST_PID = 1, TRACE_DEVICE_PID = 2 }; // of device 0

/* An event, as json_pack takes it, into a file. */
struct trace_out { FILE *file; int begun; };
void trace_event(struct trace_out *o, const char *fmt, ...);
/* Counters: bandwidth by link and direction, loss, tokens a second and memory. */
int  trace_counters(struct trace_out *o, const struct trace *t, struct runlog *log,
                    struct err *err);
