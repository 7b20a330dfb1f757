/* llama.h: the tensors of Llama and related families, as row numbers of their one parameter
 * table. They are in the order of the blocks. */
#pragma once

enum llama_tensor {
    LLAMA_EMBED,
    LLAMA_NORM_1, LLAMA_Q_W, LLAMA_K_W, LLAMA_V_W, LLAMA_Q_B, LLAMA_K_B, LLAMA_V_B,
    LLAMA_Q_NORM, LLAMA_K_NORM, LLAMA_O_W,
    LLAMA_NORM_2, LLAMA_GATE_W, LLAMA_UP_W, LLAMA_DOWN_W,
    LLAMA_POST_1, LLAMA_POST_2,
    LLAMA_NORM, LLAMA_SCORE,
    LLAMA_HEAD,
    LLAMA_TENSORS
};
