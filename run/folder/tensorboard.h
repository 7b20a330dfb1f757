/* tensorboard.h: writes the values of each step and evaluation during training, for `tensorboard
 * --logdir DIR`. The format is TensorFlow's: a TFRecord file
 * (tensorflow/core/lib/io/record_writer.cc) of Event messages (tensorflow/core/util/event.proto).
 *
 * Each training process begins a new file. The file begins with a record that invalidates older
 * values from the next step on, so TensorBoard shows no step twice. A record is complete in the
 * file when a call returns, so a killed run loses none. Nothing is flushed to the drive.
 *
 * A write error does not stop the training. The file keeps the records before it, one notice is
 * sent, and later calls do nothing. */
#pragma once

#include "run/folder/events.h"

// values of --tensorboard that are not a folder
#define TENSORBOARD_NONE "none"
#define TENSORBOARD_AUTO "auto"

struct tensorboard;

/* True if `where` is a folder that the user has named: not NULL, none or auto. */
int tensorboard_is_named(const char *where);

/* Check, before a run is made, that tensorboard_open could create its file in the folder `where`.
 * Nothing is made. 0, misuse for a wrong name, or -errno. NULL, none and auto are always 0. */
int tensorboard_check(const char *where, struct err *err);

/* Create a file in the folder `where`, which is created if needed. auto: run_dir/tensorboard; NULL
 * or none: *out is NULL. first: the next step, from 0. `e` receives the notice; it is borrowed
 * until tensorboard_close. */
int tensorboard_open(struct tensorboard **out, const char *where, const char *run_dir,
                     uint64_t first, const struct events *e, struct err *err);
void tensorboard_close(struct tensorboard *t);

/* t may be NULL. seconds: duration of the step. moved: bytes that crossed any link in it.
 * TensorBoard shows step numbers from 1, as logs do. */
void tensorboard_step(struct tensorboard *t, const struct training_step *s, double seconds,
                      uint64_t moved);
void tensorboard_evaluation(struct tensorboard *t, const struct training_evaluation *e);
