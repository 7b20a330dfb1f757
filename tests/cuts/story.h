/* story.h: what happens to a run whose power is cut: command lines before (nothing cuts these), and
 * those that are cut at any operation. After a cut the command that was cut is typed again. */
#pragma once

#include "tests/cuts/pictures.h"

#define RUN "/sim/run"

enum { LINES = 4 };

/* A command. over: it was complete before the cut, if it is refused with a sentence that has this;
 * NULL: it never is. */
struct line { const char *text, *over; };

/* Something that happens to a file: it is gone, or all of it is zero. */
struct loss { const char *path; int zeroed; };

struct story {
    const char *name;
    const char *shape; // options of the run, in addition to those that all have
    const char *before[LINES];
    struct loss lost[3]; // then these
    struct line lines[LINES];
    size_t      kept;     // whole snapshots that there are at every moment, at least
    int         parity;   // they may be whole by parity alone
    size_t      models; // of steps that there are at every moment, and the best one; 0: none
    int         tries_back; // after the cut, any whole snapshot can be gone back to
    int         shares;   // the file system shares blocks between files
    int         brief;    // the short form has it, too
};

extern const struct story stories[];
extern const size_t       n_stories;

/* The machine before the lines. all: with a snapshot of each step, of which none is removed. */
int story_begin(const struct story *t, int all, struct err *err);

/* The lines from *at on, until the power is cut: *at is the one that it was cut in; 1 if that one
 * was complete nevertheless. again: the first was typed before, so it may be complete. */
int story_go_on(const struct story *t, int all, int again, size_t *at, struct err *err);
