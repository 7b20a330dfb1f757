/* page.h: what the parts of a page are made of: its head and foot, sections with a heading and a
 * sentence, tables, pictures. Texts are escaped here; titles and heads of tables are the
 * program's own. */
#pragma once

#include "data/base/json.h"

void page_head(FILE *out, const char *title); // with the style sheet, page.css
void page_foot(FILE *out);

/* words: a sentence below the heading, or NULL; wide: as wide as the page. */
void page_section_open(FILE *out, const char *title, const char *words, int wide);
void page_section_close(FILE *out);

/* What a picture prints (charts.h), malloced: NULL where it has nothing to show. */
typedef int page_drawing(FILE *out, const json_t *report);
char *page_drawn(page_drawing *draw, const json_t *report);
void  page_chart(FILE *out, const char *svg);
/* A section of one picture, where it shows something. */
void page_section_chart(FILE *out, const char *title, const char *words, page_drawing *draw,
                        const json_t *report);
/* Colours (classes of page.css) and their words. */
void page_legend(FILE *out, const char *const (*entries)[2], size_t n);

void page_parts_legend(FILE *out); // of a breakdown

/* A head that begins with # stands over figures. */
void page_table_open(FILE *out, const char *const *heads, size_t n);
void page_table_close(FILE *out);
void page_cell(FILE *out, const char *text);
void page_number(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
