/* settings.h: the settings of a run: texts with names, stored in run.db.
 *
 *     id                32 hex digits, generated at creation
 *     config.KEY        the model: n_layer n_head n_embd vocab n_positions norm_eps; since
 *                       fine-tuning n_labels drop_embd drop_attn drop_resid; for families other
 *                       than GPT-2 also arch, and the values that do not follow from the others:
 *                       n_kv_head head_dim n_inner window global_every theta_local untied qkv_bias
 *                       qk_norm n_types pad rope.*
 *     config.pieces     number of blocks that hold the embeddings, if more than one
 *     config.labels     class names of a classifier: a JSON array of strings
 *     config.pad        pad_token_id of a classifier's folder, if it has one
 *     config.pad_id     pad_token_id of a language model's folder, if it has one
 *     config.generation generation_config.json of a language model's folder: a JSON object (hf.h)
 *     option.NAME       every row of train_opts, as text for opt_set
 *     given.NAME        the inputs of the run, as its user gave them (newrun.h)
 *     lora.base         the folder of the model that adapters belong to
 *     lora.sum          a checksum of values of its layers (base_sum in adapted.h)
 *     base.N            file N of a base in place (base_folder.h): its checksum, size, times of
 *                       the last changes, inode, name
 *     base.sum          checksum of these checksums and names, the same on all ranks
 *     base.bytes        bytes of these files for this rank's portion of each block in place
 *     schedule.step schedule.was    the last change of the schedule's horizon by a resume: the
 *                       first step (from 0) of the new horizon, and the old horizon
 *     portions.begun    files on the devices' drives of a snapshot under way (portions.h)
 *     going_back        the snapshot to which the run goes back, until it is there: its steps, its
 *                       number, its path (going_back.h)
 *     going_back.format the format of run.db before (branches.h)
 *     going_back.options    the options that the command gave, as session_given_options
 *     branch            a word for the ways back that led here with other options
 *                       (offload/upkeep/recovery.h)
 *     was.NAME          of a snapshot, or a folder made of one: what the run had as NAME
 *                       (snapshots.h)
 *     finished          nothing is left to train: steps: all steps are done; early: training ended
 *                       by --early-stopping. Absent while there is
 *     data.path         the token file (absolute, or data.bin in RUN)
 *     data.sums         its CRC32C per MiB, in hex
 *     data.text         the text file that it was tokenised from
 *     data.text.sums    the text's CRC32C in hex; absent: an older version made the run
 *     data.format       u32: uint32 ids without a header; absent: uint16, or by llm.c's header
 *     data.tokens data.rows    the number of its tokens, and of rows in an epoch; absent: an older
 *                       version made the run
 *     data.N.path ...   the same settings of the N-th source behind the first (N from 1)
 *     data.mix          rows of each source in 4,096, with commas; absent: one pool of rows
 *     data.column       the key of the text in rows; absent: "text"
 *     eval.path ...     the same settings for --eval-data
 *     eval.split        the part of the documents of --data that is evaluated on; absent: none
 *     ranks rank        number of ranks, and the rank of this folder; absent: a single process
 *     place.first       of a rank but rank 0: rank 0's folder (run/ranks/job_run.h)
 *     endoftext         the id of <|endoftext|>, or -1
 *     begintext         the id of the token that begins texts, or -1
 *     layout            the set of devices that the run was moved to (offload/upkeep/reshard.h);
 *                       absent: the set that it was created with
 *     device.place      the folder in which the run recorded device.N (moved.h)
 *     owner             the word in the devices' superblocks since a user named them (moved.h)
 *     owner.next        the next such word, until all devices have it
 *     reshard.remove    device files that are not the run's (offload/upkeep/reshard.h)
 *     reshard.files     the file_identity of each of them
 *     spares            spare slots: 1: for --speculate; few: as --spare-slots few; absent: half
 *     command created version host system cpu    how and where the run was created
 *     engine            the matrix-multiplication engine
 *     frames residual_in_ram records record_bytes record_buffers record_whole acts_written
 *     acts_read         choices of the memory plan, and the activations' traffic per step.
 *                       record_whole is 1 if an offloaded MLP includes all that backward needs. If
 *                       the last two are absent: all records minus record_buffers
 *     drive.N           MAJOR:MINOR of the real drive of device N when it was last opened
 *     mount.N           the mount point of device N's file then; "." if it was the file system of
 *                       RUN, and the file in RUN (drives.h)
 *     memory.NN         an item of the memory plan: bytes and name. The last items are the total,
 *                       the limit (--host-mem) and the arenas of emulated devices
 *
 * Settings of a fine-tuning:
 *
 *     task              cola, ..., custom, chat, or dpo
 *     epochs            as given
 *     NAME.sum          examples_sum of RUN/NAME.ex, in hex; NAME: train, dev, dev_mm, test,
 *                       test_mm, for each that exists
 *     NAME.rows         its number of rows
 *     NAME.file         the path of the file that it was made from, or what several are called;
 *                       of conversations one a line
 *     source.N.file source.N.rows source.N.tokens    of the N-th --train-file (from 0): its path,
 *                       its rows in RUN/train.ex (of preferences, pairs), their tokens; absent: an
 *                       older version made the run, or a GLUE task
 *     source.N.packed   its packed rows
 *     source.mix        rows of each source in 4,096, with commas; absent: one pool of rows
 *     NAME.seconds      for dev and dev_mm: duration of the last evaluation
 *     result.NAME       checksum and bytes of the file RUN/NAME as last written, and of the file
 *                       before (result_files.h)
 *     predicted.step    last step (from 0) of the model that made the last predictions
 *     column.text column.pair column.label    the columns of the user's own training file
 *
 * Settings of conversations (task chat):
 *
 *     chat.form         the form of the first file's rows; it also says that the rows are
 *                       conversations
 *     chat.packing chat.by_length    1 if --packing or --group-by-length was given
 *     train.packed      rows of an epoch, if several examples are in a row
 *     NAME.tokens NAME.counted    of train and dev: tokens, and those that count in the loss
 *
 * Settings of preferences (task dpo), which have those of conversations, too; NAME.rows counts both
 * answers of each:
 *
 *     pairs.loss pairs.beta pairs.smoothing    options of the loss; they also say that two
 *                       neighbouring rows are a pair
 *     NAME.ref          checksum of RUN/NAME.ref, in hex (reference.h)
 *
 * Settings about exports and places:
 *
 *     export.path export.step export.sum    the last `siTrain export`: the folder (absolute), the
 *                       last step in it (from 1; 0: none), and its safetensors_sum
 *     best.step best.name best.value best.seconds best.seconds_mm best.sum    RUN/best (best.h)
 *     best.folder       file_identity of the folder that became RUN/best, or was about to
 *
 *     checkpoint.STEP   checksum of RUN/checkpoint-STEP (checkpoints.h), and "writing" until the
 *                       folder is complete
 *
 *     place             the folder in which the run was last written: its file_identity, a space,
 *                       its path (moved.h)
 *     device.N          the file_identity of device N's file; empty: it is a drive; "new": restore
 *                       makes it */
#pragma once

#include "data/db/runlog.h"

/* *out: the value, malloced, or NULL if there is none. 0 or -errno; unlike settings_get it
 * distinguishes a missing value from a read error. key: a printf format. */
int settings_find(char **out, struct runlog *log, struct err *err, const char *key, ...)
    __attribute__((format(printf, 4, 5)));
/* Returns the value, malloced; NULL if there is none or it cannot be read. key: a printf format. */
char *settings_get(struct runlog *log, const char *key, ...) __attribute__((format(printf, 2, 3)));
/* True if there is a value and it is not empty. */
int   settings_has(struct runlog *log, const char *key, ...) __attribute__((format(printf, 2, 3)));

/* Read a number into *out by one scanf conversion. 1; or 0 if there is none, and *out is
 * unchanged. */
int settings_scan(struct runlog *log, const char *conversion, void *out, const char *key, ...)
    __attribute__((format(printf, 4, 5)));

/* Store "KEY=VALUE". A format with line breaks stores one setting per line; then no value may
 * contain a line break. */
int settings_set(struct runlog *log, struct err *err, const char *settings, ...)
    __attribute__((format(printf, 3, 4)));

/* Give a setting the value that it has in `from`, another run's or a snapshot's; without one there,
 * remove it. */
int settings_take(struct runlog *log, struct runlog *from, const char *key, struct err *err);
