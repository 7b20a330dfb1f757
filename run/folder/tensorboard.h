/* tensorboard.h: what each step and evaluation gave, written while the run is trained, as
 * TensorBoard reads it: `tensorboard --logdir DIR`. The format is TensorFlow's: a TFRecord file
 * (tensorflow/core/lib/io/record_writer.cc) of Event messages
 * (tensorflow/core/util/event.proto).
 *
 * Each opening begins a file of its own, which says from which step on what was written before no
 * longer holds: steps that a kill took back are not shown twice. A record is whole in the file once
 * a call returns, so that a killed run leaves all of them; nothing is flushed to the drive.
 *
 * It is not worth a training: where a record cannot be written (a full disk), the file keeps those
 * before it, a notice says so once, and the training goes on without. */
#pragma once

#include "run/folder/events.h"

// what --tensorboard takes beside a folder
#define TENSORBOARD_NONE "none"
#define TENSORBOARD_AUTO "auto"

struct tensorboard;

/* A new file in the folder `where` (made if need be; auto: run_dir/tensorboard; NULL or none:
 * *out is NULL). `first`: the step that comes next, from 0. `e` hears the notice; it is borrowed,
 * as everything else is only during the call. */
int tensorboard_open(struct tensorboard **out, const char *where, const char *run_dir,
                     uint64_t first, const struct events *e, struct err *err);
void tensorboard_close(struct tensorboard *t);

/* All take NULL. seconds: that the step took; moved: bytes that crossed any link in it. Values are
 * shown at the step's number from 1, as in every log. */
void tensorboard_step(struct tensorboard *t, const struct training_step *s, double seconds,
                      uint64_t moved);
void tensorboard_evaluation(struct tensorboard *t, const struct training_evaluation *e);
