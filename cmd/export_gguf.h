/* export_gguf.h: the part of export that writes a GGUF file. */
#pragma once

#include "data/opt/opt.h"
#include "model/file/gguf_config.h"
#include "model/file/gguf_export.h"

/* Whether this name is that of a GGUF file: it ends in .gguf. */
int export_is_gguf(const char *path);
/* Misuse: options of the other kind of export. */
int export_gguf_options(const struct opt_line *line, int gguf, struct err *err);
/* Writes the file. run: what is read, which the file may not replace. */
int export_gguf(const char *path, struct hf_export *x, int type, const char *run, struct err *err);
