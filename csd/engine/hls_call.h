/* hls_call.h: an engine's work as the kernels of csd/hls are asked for it (csd/hls/command.h), and
 * what they answer. The kernels are given the set's memory for every argument but the command and
 * the result; where things lie in it the command says. */
#pragma once

#include "csd/engine/engine.h"
#include "csd/hls/command.h"

enum { HLS_COMMAND_BYTES = 2 * HLS_LINE + 8 * HLS_SEGMENTS, HLS_RESULT_BYTES = HLS_LINE };

/* The arguments of the kernels, all of them pointers; the first is the command, the last the
 * result. */
enum { HLS_UPDATE_ARGS = 10, HLS_SCATTER_ARGS = 4 };

/* What the kernels can do. */
extern const struct csd_caps hls_caps;

/* A question that does nothing: only the version is answered. */
void hls_ask_version(void *command);
int  hls_version(const void *result);

/* The work of s, an ENGINE_PASS being all of its area at once. */
void hls_ask(void *command, const struct engine_set *s);
/* What came of it, into s and its update; s->status is 0 or -EBADMSG. -EPROTO and a sentence where
 * this is no answer to it. */
int  hls_take(const void *result, struct engine_set *s, struct err *err);
