/* live.h: the model of a run that another process is training. Its states change while somebody
 * would read them, so the training process itself writes the model for whoever asks, between two
 * steps, as it writes RUN/best.
 *
 * The reader makes a folder RUN/asked.new-HEX (file_new_folder), which it keeps locked, and waits.
 * After each step the training process looks for such folders. It writes the model as a Hugging
 * Face folder into RUN/asked.new-HEX/answer.new-HEX, which becomes after-STEP in one rename; or a
 * file `failed` with a sentence. The reader removes all of it; if it was killed, the next one does,
 * or the next training. Of several ranks rank 0 looks for folders, and all answer together.
 *
 * A training process that answers keeps a shared lock on the folder RUN. So a reader knows whether
 * somebody answers, and whether the training has ended meanwhile. */
#pragma once

#include "data/file/file.h"
#include "offload/stream/stream.h"
#include "run/folder/session.h"

/* ---- the training process ---- */

enum { LIVE_PATH = SESSION_PATH + 128 };

/* fd: RUN, locked; -1: nobody is answered. seen, looked: RUN's time of change at the last look, and
 * its time. asked: the folder of a reader that waits. */
struct live { int fd; struct timespec seen, looked; char asked[LIVE_PATH]; };

/* Say that this process answers. Where folders cannot be locked, nobody asks. Removes what killed
 * readers left. */
void live_open(struct live *l, const struct session *s);
void live_close(struct live *l);

/* Whether somebody asks: 1 or 0. Of several ranks only rank 0 is asked. */
uint64_t live_asked(struct live *l, const struct session *s);

/* Answer who asks. `step` steps are done, and none is under way. All ranks call it, and send their
 * portions to rank 0 (gathered.h). A model that cannot be written is the reader's failure, not the
 * training's. */
int live_answer(struct live *l, struct session *s, struct stream *stream, uint64_t step,
                struct err *err);

/* ---- the reader ---- */

struct live_model { struct file_new asked; char path[LIVE_PATH]; uint64_t step; };

/* Ask for the model, and wait for it. The run is open by SESSION_LIVE. -EBUSY, without a sentence,
 * if the process that has the run does not answer: it does something else than training. -EAGAIN
 * if the training ended before it answered: the run can be opened again as usual. -EACCES, with a
 * sentence: RUN is another user's. live_done removes the model; it accepts the zero state. */
int  live_ask(struct live_model *m, const struct session *s, struct err *err);
void live_done(struct live_model *m);
