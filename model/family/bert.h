/* bert.h: the tensors of BERT and RoBERTa, as row numbers of their parameter tables. They are in
 * the order of the blocks. */
#pragma once

#include "model/arch/arch.h"

enum bert_tensor {
    BERT_WORDS, BERT_POSITIONS, BERT_TYPES, BERT_NORM_0_W, BERT_NORM_0_B,
    BERT_Q_W, BERT_K_W, BERT_V_W, BERT_Q_B, BERT_K_B, BERT_V_B, BERT_O_W, BERT_O_B,
    BERT_NORM_1_W, BERT_NORM_1_B, BERT_FC_W, BERT_FC_B, BERT_DOWN_W, BERT_DOWN_B,
    BERT_NORM_2_W, BERT_NORM_2_B,
    BERT_POOL_W, BERT_POOL_B, BERT_SCORE_W, BERT_SCORE_B,
    BERT_MASKED_W, BERT_MASKED_B, BERT_MASKED_NORM_W, BERT_MASKED_NORM_B, BERT_MASKED_BIAS,
    BERT_TENSORS
};

/* The families' hooks of struct arch (arch.h), in bert_config.c: reading and writing
 * config.json, settle, and check. */
int     bert_config_read(struct model_config *g, const struct hf_keys *k, struct err *err);
json_t *bert_config_write(const struct model_config *g);
void    bert_settle(struct model_config *g);
int     bert_check(const struct model_config *g, struct err *err);
