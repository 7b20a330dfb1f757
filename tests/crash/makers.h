/* makers.h: two processes that make the same run at once, as run/folder/creation.c does it. */
#pragma once

#include "tests/crash/life.h"

/* Both make the run, or find that somebody else has; whoever made it trains it to its end, and so
 * does a third where nobody did. -EPROTO without a sentence, which is printed: both made it, or
 * something of a maker is left. */
int makers(const struct plan *p, struct witness *w, struct err *err);
