/* llmc_file.h: how a file of token ids in llm.c's format begins. tokens.c reads such files, and
 * tokens_writer.c writes them. */
#pragma once

#include "data/file/file_kind.h"

#define LLMC_HEADER_BYTES 1024u

/* The numbers at the beginning of llm.c's files, little-endian like the processor. llm.c ignores
 * what follows them in the header; there our files say that they are ours. */
struct llmc_header { int32_t magic, version, count; };
static const char llmc_mark[8] = "siTrain";

/* Files of more ids than an int32 can count have LLMC_COUNT_BEHIND as their count, and behind the
 * mark the count as a uint64. */
enum { LLMC_COUNT_BEHIND = -1, LLMC_COUNT_AT = 24 };

/* The formats that llm.c writes, for GPT-2 and for Llama 3, the narrower first. */
static const struct llmc_format {
    int32_t  magic, version;
    unsigned width; // bytes of an id
} llmc_formats[] = { { LLMC_MAGIC_U16, 1, 2 }, { LLMC_MAGIC_U32, 7, 4 } };
enum { LLMC_FORMATS = sizeof llmc_formats / sizeof *llmc_formats };
