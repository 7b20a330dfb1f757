/* opt_value.h: one option's value from its text and back: for opt*.c only. */
#ifndef CMD_OPT_OPT_VALUE_H
#define CMD_OPT_OPT_VALUE_H

#include "cmd/opt/opt.h"

/* Read one value into the row's field; of repeated strings it is one more. 0, or a misuse sentence.
 */
int  opt_value_parse(const struct opt_row *r, const char *text, void *field, struct err *err);
/* The text of a value that fits in buf: all but strings, which give "". */
void opt_value_text(const struct opt_row *r, const void *field, char *buf, size_t size);

int  opt_strings_add(struct opt_strings *s, const char *text, size_t len, struct err *err);
void opt_strings_release(struct opt_strings *s); // to the zero state
int  opt_no_memory(struct err *err);             // -ENOMEM with its sentence

#endif
