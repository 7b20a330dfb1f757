/* kinds.h: small tokenizers of the kinds that are not byte-level, as files of tokenizer.json. */
#pragma once

extern const char *const fuzz_kinds[]; // ends with NULL
