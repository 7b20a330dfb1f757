/* reader.h: RUN or HFDIR, whichever a command was given, as a source of parameters. */
#ifndef CMD_READER_H
#define CMD_READER_H

#include "cmd/memory.h"
#include "cmd/session.h"
#include "data/tokenizer.h"
#include "model/finite.h"
#include "model/hf.h"

struct reader {
    struct gpt_config    gpt;
    struct params_source source;                       // refuses values that are not finite
    struct finite        finite;                       // behind it
    char                 tokenizer[SESSION_PATH + 16]; // a folder; "" if there is none
    uint64_t             bytes;                        // that the source itself holds
    size_t              *block_params;
    // the one or the other
    struct hf           *hf;
    struct session       run;
    struct run_reader   *masters;
};

/* A run is first brought to its last commit where a crash left a step half done. disk: NULL for the
 * run's own. Closed by reader_close also after a failure. */
int  reader_open(struct reader *r, const char *path, const char *disk, struct err *err);
void reader_close(struct reader *r);

/* The dtype to read with where none was asked for: a run's own; bf16 for a folder. */
int reader_dtype(const struct reader *r);

/* The tokenizer in `dir`, or if NULL the reader's own. */
int reader_tokenizer(struct tokenizer **out, const struct reader *r, const char *dir, struct err *err);

/* What a classifier pads with, as it came: transformers reads a row's last position that is something else.
 * Where nothing is said, <|endoftext|>. path: what the reader was opened with. */
long reader_pad(const struct reader *r, const char *path, long endoftext);

/* Plan the memory for m (dtype, batch, ... filled in; training 0) and open a stream over the
 * source. rows: of labelled examples that will be predicted at once, at most. */
int reader_stream(struct stream **out, const struct reader *r, const struct model_options *m, uint64_t rows,
                  uint64_t host_mem, struct err *err);

#endif
