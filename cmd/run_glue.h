/* run_glue.h: the options of Hugging Face's run_glue.py as finetune takes them. */
#ifndef CMD_RUN_GLUE_H
#define CMD_RUN_GLUE_H

#include "cmd/opt/opt.h"

extern const struct opt_alias run_glue_aliases[]; // ends with { 0 }

#endif
