/* block_form.c: chooses the form of arithmetic for products. */
#include "kernels/product/block_form.h"

const struct block_form *block_form_of(enum dtype dt)
{
    static const struct block_form *const forms[] = { &block_amx, &block_pairs, &block_avx512,
                                                      &block_avx2, &block_plain };
    size_t i = 0;

    while ((dt == DT_F32 && forms[i]->dt != DT_F32) || !forms[i]->runs())
        i++;
    return forms[i];
}
