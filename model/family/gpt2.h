/* gpt2.h: GPT-2's tensors, as row numbers of gpt2_arch's parameter table. They are in the order
 * of the blocks. */
#pragma once

#include "model/arch/arch.h"

enum gpt2_tensor {
    GPT2_WTE, GPT2_WPE,
    GPT2_LN1_W, GPT2_LN1_B, GPT2_QKV_W, GPT2_QKV_B, GPT2_ATTN_PROJ_W, GPT2_ATTN_PROJ_B,
    GPT2_LN2_W, GPT2_LN2_B, GPT2_FC_W, GPT2_FC_B, GPT2_MLP_PROJ_W, GPT2_MLP_PROJ_B,
    GPT2_LNF_W, GPT2_LNF_B, GPT2_SCORE_W,
    GPT2_TENSORS
};
