/* kinds.c: Llama 2's kind, Mistral's, one with bytes for nothing, and BERT's. */
#include "tests/fuzz/kinds.h"

#include <stddef.h>

#define ADDED(id) \
    "\"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"special\": true, \"normalized\": " \
    "false}, {\"id\": 1, \"content\": \"<s>\", \"special\": true, \"normalized\": false, " \
    "\"lstrip\": true}, {\"id\": " #id ", \"content\": \"the t\", \"normalized\": true, " \
    "\"single_word\": true, \"rstrip\": true}], "
#define MODEL \
    "\"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"\u2581\": 2, \"t\": 3, \"h\": 4, \"e\": 5, " \
    "\"\u2581t\": 6, \"he\": 7, \"\u2581the\": 8, \"\u2581\u2581\": 9, \"<0x41>\": 10, " \
    "\"<0xC3>\": 11, \"<0xA9>\": 12}, \"merges\": [[\"h\", \"e\"], [\"\u2581\", \"t\"], " \
    "[\"\u2581t\", \"he\"], [\"\u2581\", \"\u2581\"]]}"
#define TEMPLATE \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": " \
    "[{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": " \
    "\"A\"}}], \"pair\": [{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": " \
    "\"<s>\", \"type_id\": 1}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], " \
    "\"special_tokens\": {\"<s>\": {\"ids\": [1]}}}, "
#define STEPS \
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", " \
    "\"pattern\": {\"String\": \"\u2581\"}, \"content\": \" \"}, {\"type\": " \
    "\"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", " \
    "\"start\": 1, \"stop\": 0}]}, "

const char *const fuzz_kinds[] = {
    "{"
    ADDED(13)
    TEMPLATE
    STEPS
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
    "\"prepend\": \"\u2581\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
    "\"content\": \"\u2581\"}]}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", "
    "\"fuse_unk\": true, \"byte_fallback\": true, "
    MODEL
    "}",
    "{"
    ADDED(13)
    STEPS
    "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\u2581\", "
    "\"prepend_scheme\": \"first\", \"split\": false}, \"model\": {\"type\": \"BPE\", "
    "\"byte_fallback\": true, "
    MODEL
    "}",
    "{"
    ADDED(13)
    "\"normalizer\": {\"type\": \"NFD\"}, \"pre_tokenizer\": {\"type\": \"Metaspace\", "
    "\"replacement\": \"\u2581\"}, \"decoder\": {\"type\": \"Metaspace\", \"replacement\": "
    "\"\u2581\"}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", "
    MODEL
    "}",
    "{"
    ADDED(6)
    "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
    "\"handle_chinese_chars\": true, \"lowercase\": true}, \"pre_tokenizer\": {\"type\": "
    "\"BertPreTokenizer\"}, \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": "
    "[\"<unk>\", 0], \"cls\": [\"<s>\", 1]}, \"decoder\": {\"type\": \"WordPiece\", "
    "\"prefix\": \"##\", \"cleanup\": true}, \"model\": {\"type\": \"WordPiece\", "
    "\"unk_token\": \"<unk>\", \"continuing_subword_prefix\": \"##\", "
    "\"max_input_chars_per_word\": 20, \"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"the\": 2, "
    "\"##t\": 3, \"t\": 4, \".\": 5}}}",
    NULL,
};
