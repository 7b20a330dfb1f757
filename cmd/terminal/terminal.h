/* terminal.h: a terminal that a page is drawn on again and again, and what a person does there
 * meanwhile. It is as it was once it is closed. */
#pragma once

#include "data/base/err.h"

enum terminal_event { TERMINAL_TIME, TERMINAL_RESIZED, TERMINAL_END };

struct terminal; // there is one at most

/* Whether a page can be drawn on stdout; whether in colours, too (not with NO_COLOR). */
int terminal_draws(void);
int terminal_colors(void);

/* Stdout becomes a page of its own, keys are not shown, signals are asked for. */
int  terminal_open(struct terminal **out, struct err *err);
void terminal_close(struct terminal *t); // NULL is fine

/* Returns how many columns and rows there are; 80 and 24 if that is unknown. */
void terminal_size(size_t *columns, size_t *rows);
/* Show these lines from the top, one that is not ended being the last. */
int  terminal_draw(struct terminal *t, const char *text, struct err *err);
/* Wait for so long, or until the page has another size, or the end is wanted: q, Ctrl-C, a signal,
 * the terminal's end. Ctrl-Z is obeyed; after it the page has to be drawn, too. */
enum terminal_event terminal_wait(struct terminal *t, double seconds);
