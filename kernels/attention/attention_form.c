/* attention_form.c: chooses the fastest form that runs on this CPU. */
#include "kernels/attention/attention_form.h"

const struct attention_form *attention_form_of(enum dtype dt)
{
    return attention_amx.runs(dt)                          ? &attention_amx
           : attention_bf16.runs(dt) && simd_fast_bf16() ? &attention_bf16
                                                         : &attention_f32;
}
