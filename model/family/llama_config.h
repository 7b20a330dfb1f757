/* llama_config.h: the sizes of Llama and related families: derived sizes, checks, and
 * config.json as transformers 4 and 5 write it. For llama.c alone. */
#pragma once

#include "model/arch/arch.h"

/* Presets: Llama and SmolLM2; Qwen2.5; Gemma 3. */
enum { LLAMA_PRESETS = 6, QWEN2_PRESETS = 4, GEMMA3_PRESETS = 2 };
extern const struct arch_preset llama_presets[LLAMA_PRESETS], qwen2_presets[QWEN2_PRESETS],
    gemma3_presets[GEMMA3_PRESETS];

void llama_settle(struct model_config *g);
int  llama_check(const struct model_config *g, struct err *err);

/* The families' config_read and config_write (arch.h). */
int llama_config_read(struct model_config *g, const struct hf_keys *k, struct err *err);
int llama_config_mistral(struct model_config *g, const struct hf_keys *k, struct err *err);
int llama_config_qwen2(struct model_config *g, const struct hf_keys *k, struct err *err);
int llama_config_qwen3(struct model_config *g, const struct hf_keys *k, struct err *err);
int llama_config_gemma3(struct model_config *g, const struct hf_keys *k, struct err *err);

json_t *llama_config_write(const struct model_config *g);
json_t *llama_config_write_mistral(const struct model_config *g);
json_t *llama_config_write_qwen(const struct model_config *g);
json_t *llama_config_write_gemma3(const struct model_config *g);
