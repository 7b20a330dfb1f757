/* power.h: when simulated machines lose their power. From the cut on everything that changes their
 * files fails with -EIO and changes nothing, on the machine whose thread (threads.h) came to the
 * point. The others lose theirs some operations of their own later, or not at all, as the number of
 * that point draws it. */
#pragma once

#include <stdint.h>

/* Cut the power instead of operation `at`, counted from here; UINT64_MAX: never. */
void     power_arm(uint64_t at);
uint64_t power_ops(void);     // since
int      power_is_cut(void);  // this thread's machine
int      power_was_cut(void); // any

/* The point before an operation: 0, or -EIO. */
int      power_point(void);
