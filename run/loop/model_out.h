/* model_out.h: writes the model of a run in training as a Hugging Face folder: RUN/best,
 * RUN/checkpoint-STEP (checkpoints.h), or the model that another process asks for (live.h). Of a
 * run with adapters, the first two are adapter folders; for the third, the model is written next to
 * its adapter, unmerged. */
#pragma once

#include "offload/stream/stream.h"
#include "run/folder/session.h"

/* Write the parameters of `source` into the folder `dir`, which exists, as fp32 with config,
 * tokenizer and classes. alone: of a run with adapters, the adapter is written without its model.
 * doing: for the progress, such as "writing the best model". */
int model_out(struct session *s, const struct params_source *source, const char *dir, int alone,
              const char *doing, struct err *err);

/* Call w->write with the whole model, between two steps of a training; `done` steps are done. All
 * ranks call this, and send their portions to rank 0, which alone writes. A failure to write is in
 * w->rc and w->why; a failure to read, or of another rank, is the result. */
struct model_writer {
    int (*write)(void *ctx, const struct params_source *model, struct err *err);
    void      *ctx;
    int        rc;
    struct err why;
};
int model_out_between(struct model_writer *w, struct session *s, struct stream *stream,
                      uint64_t done, struct err *err);
