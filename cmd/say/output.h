/* output.h: the end of what a command prints on stdout. */
#ifndef CMD_SAY_OUTPUT_H
#define CMD_SAY_OUTPUT_H

/* Flush stdout. What was printed must have arrived: where it did not (a full disk), that is said
 * and 1 returned in place of an exit code of 0. A reader that went away (| head) has read what it
 * wanted: that is no failure, and nothing is said. */
int output_finish(int code);

#endif
