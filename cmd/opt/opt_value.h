/* opt_value.h: one option's value from its text and back. */
#ifndef CMD_OPT_OPT_VALUE_H
#define CMD_OPT_OPT_VALUE_H

#include "cmd/opt/opt_row.h"

/* Read one value into the row's field; of repeated strings it is one more. 0, or a misuse
 * sentence. */
int opt_value_parse(const struct opt_row *r, const char *text, void *field, struct err *err);
/* The text that opt_value_parse takes back with the same result; repeated strings joined by
 * newlines; none: "". Malloced; NULL: out of memory. */
char *opt_value_text(const struct opt_row *r, const void *field);
/* Free the strings; the field holds none after that. */
void opt_value_release(const struct opt_row *r, void *field);

int opt_no_memory(struct err *err); // -ENOMEM with its sentence

uint64_t opt_warmup_steps(struct opt_warmup w, uint64_t horizon);

/* "1.5G" and the like; shared by everything that prints bytes. */
const char *opt_size_text(char *buf, size_t size, double bytes);

#endif
