/* draw.h: a run's figures as a page, the more of it the more room there is. */
#pragma once

#include "cmd/terminal/lines.h"
#include "cmd/terminal/look.h"

enum { DRAW_MARGIN = 10 }; // columns left of the curve

void draw_look(struct lines *p, const struct look *f, const char *run);
