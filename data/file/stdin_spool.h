/* stdin_spool.h: makes standard input readable more than once. What arrives from a pipe is written
 * to a file without a name, which then is standard input. So "-" is a file like any other, and
 * nothing of it is left after the process, however that ends. */
#pragma once

#include "data/base/watch.h"

/* Reads standard input to its end into a file next to the name `beside`. Memory is that of a
 * buffer. From now on unpack.h reads "-" as often as it is asked to. */
int  stdin_spool(const char *beside, const struct watch *watch, struct err *err);
int  stdin_spool_is(void); // returns whether that was done
void stdin_spool_end(void); // gives the file's room back: standard input is empty from now on
