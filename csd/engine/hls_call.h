/* hls_call.h: an engine's work as a command to the kernels of csd/hls (csd/hls/command.h), and
 * their answer. Every kernel argument except command and result is the set's memory; the command
 * says where things lie in it. */
#pragma once

#include "csd/engine/engine.h"
#include "csd/hls/command.h"

enum { HLS_COMMAND_BYTES = 2 * HLS_LINE + 8 * HLS_SEGMENTS, HLS_RESULT_BYTES = HLS_LINE };

/* The number of kernel arguments, all pointers. The first is the command, the last the result. */
enum { HLS_UPDATE_ARGS = 10, HLS_SCATTER_ARGS = 4 };

/* What the kernels can do. */
extern const struct csd_caps hls_caps;

/* A command that only asks for the version, and its answer. */
void hls_ask_version(void *command);
int  hls_version(const void *result);

/* The command for the work of s. An ENGINE_PASS is always the whole area. */
void hls_ask(void *command, const struct engine_set *s);
/* Take the answer into s and its update; s->status becomes 0 or -EBADMSG. -EPROTO and a sentence:
 * this is no answer to the command. */
int  hls_take(const void *result, struct engine_set *s, struct err *err);
