/* chat_ends.h: the tokens that end an answer. A model must learn one of them, and whoever generates
 * with it must stop there: generation_config.json names it in every export. */
#pragma once

#include "chat/encode.h"
#include "model/file/hf.h"
#include "run/folder/session.h"

/* stops: at which generation stops: those of generation_config.json, the tokenizer's end of a text,
 * and the token that closes an assistant's turn. closing: that one, -1 if the template closes turns
 * by none, or if there is no template. */
struct chat_ends { int32_t stops[HF_STOPS + 2], closing; size_t n; };

/* Find those of a run that is being created. */
int  chat_ends_find(struct chat_ends *e, const struct session *s, const struct chat_encoding *how,
                    struct err *err);
int  chat_ends_has(const struct chat_ends *e, int32_t id);
/* Store with the run that generation stops at `id`, too, and say so if its generation_config.json
 * did not. Nothing is done for -1. */
int  chat_ends_keep(struct session *s, const struct tokenizer *tok, int32_t id, struct err *err);
/* Send a notice that none of `rows` rows teaches to stop. cut: all of them are cut off. */
int  chat_ends_missing(const struct chat_ends *e, struct session *s, const struct tokenizer *tok,
                       int cut, struct err *err);
