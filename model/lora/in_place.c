/* in_place.c: takes all frozen blocks of a model with adapters for those of its base's files, but
 * for the head of an encoder. That may be new, and then no file has it; it is small, and copied. */
#include "model/lora/in_place.h"

#include "data/base/text_made.h"

static void bytes_read(size_t *bytes, const struct run_config *run, const char *text)
{
    char *end;

    for (size_t b = 0; b < run_blocks(run) && *text; b++, text = end) {
        end = (char *)(uintptr_t)text;
        if (run_in_place(run, b))
            bytes[b] = strtoull(text, &end, 10);
    }
}

void in_place_config(struct run_config *run, const struct model_config *g,
                     const struct base_files *files, const char *stored, size_t *memory)
{
    size_t n = run_blocks(run), *bytes = memory + n;

    run->base_end = g->arch->encoder ? arch_final_block(g) : n;
    run->base = files;
    run->held = memory;
    run->base_bytes = bytes;
    for (size_t b = 0; b < n; b++) {
        size_t portion = run->block_params[b];

        memory[b] = run_in_place(run, b) ? 0 : portion;
        bytes[b] = !run_in_place(run, b) ? 0
                   : files ? base_files_bytes(files, b, run_first(run, b), portion)
                           : portion * dtype_bytes(run->wire_dt);
    }
    if (!files && stored)
        bytes_read(bytes, run, stored);
}

char *in_place_text(const struct run_config *run)
{
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    for (size_t b = 0; f && b < run_blocks(run); b++)
        if (run_in_place(run, b))
            fprintf(f, "%zu ", run->base_bytes[b]);
    return text_made(f, &text, 0);
}
