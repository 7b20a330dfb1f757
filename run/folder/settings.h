/* settings.h: the settings of a run: named texts in its run.db. What is stored under which name:
 *
 *     id                32 hex digits made at creation
 *     config.KEY        n_layer n_head n_embd vocab n_positions norm_eps; since fine-tuning
 *                       n_labels drop_embd drop_attn drop_resid; of other families than GPT-2
 *                       arch, and what does not follow from these: n_kv_head head_dim n_inner
 *                       window global_every theta_local untied qkv_bias qk_norm n_types pad rope.*
 *     config.pieces     how many blocks the embeddings are, where they are more than one
 *     config.labels     a classifier's labels by name: a JSON array of strings
 *     config.pad        the id that its folder pads with (pad_token_id), where it has one
 *     config.pad_id     the same of a language model's folder
 *     config.generation what a language model's folder says of texts that are generated: a JSON
 *                       object (hf.h)
 *     option.NAME       every row of train_opts, as text that opt_set takes
 *     given.NAME        what the run was made from, as it was asked for (newrun.h)
 *     schedule.step schedule.was    where a resume has changed the schedule's horizon last: the
 *                       first step (from 0) of the new one, and the one before
 *     data.path         the token file (absolute, or data.bin in RUN)
 *     data.sums         its CRC32C per MiB in hex
 *     data.text         what it was made from
 *     data.text.sums    that file's CRC32C in hex; absent: the run was made before there was one
 *     data.format       u32: its ids are uint32 without a header; absent: uint16, or as llm.c's
 *                       header says
 *     eval.path ...     the same of --eval-data
 *     ranks rank        how many train it together, and which of them this folder is; absent: one
 *                       process alone
 *     endoftext         the id of <|endoftext|>, or -1
 *     begintext         the id of the token that begins texts, or -1
 *     layout            the set of devices that the run was moved to (offload/upkeep/reshard.h);
 *                       absent: those it was made with
 *     owner             the word in its devices' superblocks since they were named (moved.h)
 *     owner.next        the word that they get, until all of them have it
 *     reshard.remove    device files that are not the run's (offload/upkeep/reshard.h)
 *     spares            1: the devices have slots for --speculate, which the run was made with;
 *                       few: as --spare-slots few; absent: half
 *     command created version host system cpu    of where it was made
 *     engine            what computes its products
 *     frames residual_in_ram records record_bytes record_buffers record_whole acts_written
 *     acts_read         what the memory plan chose (record_whole: 1 where offloaded MLPs leave with
 *                       all that backward needs), and what of activations crosses the link in a
 *                       step; the last two absent: all records but as many as there are buffers
 *     drive.N           MAJOR:MINOR of the real drive that device N was on when it was last opened
 *     memory.NN         a part of that plan: its bytes and its name; the total, the limit
 *                       (--host-mem) and the arenas of emulated devices last
 *
 * of a fine-tuning:
 *
 *     task              cola, ..., or custom
 *     epochs            asked for
 *     NAME.sum          examples_sum of RUN/NAME.ex, in hex; NAME: train, dev, dev_mm, test,
 *                       test_mm, those there are
 *     NAME.rows         its rows
 *     NAME.file         what they were made of, as it was called
 *     NAME.seconds      of dev and dev_mm: how long the last evaluation took
 *     result.NAME       checksum and bytes of the file RUN/NAME as it was written last, and before
 *                       (result_files.h)
 *     predicted.step    the last step (from 0) of the model whose predictions were written last
 *     column.text column.pair column.label    that the training file of one's own was read from
 *
 * of what left it:
 *
 *     export.path export.step export.sum    the last `siTrain export`: the folder (absolute), the
 *                       last step in it (from 1; 0: none), and its safetensors_sum
 *     best.step best.name best.value best.seconds best.seconds_mm best.sum    of RUN/best (best.h)
 *     best.folder       file_identity of the folder that became RUN/best, or was to
 *
 *     place             the folder in which the run was last written: its file_identity, a space,
 *                       its path (moved.h)
 *     device.N          the file_identity of device N's file; empty: it is a drive
 */
#pragma once

#include "data/db/runlog.h"

/* A value, malloced, NULL if there is none, as whoever must tell that from one that cannot be read
 * asks: 0 or -errno. key: a format. */
int settings_find(char **out, struct runlog *log, struct err *err, const char *key, ...)
    __attribute__((format(printf, 4, 5)));
/* A value, malloced; NULL if there is none. key: a format. */
char *settings_get(struct runlog *log, const char *key, ...) __attribute__((format(printf, 2, 3)));
/* Is there one, and not the empty text? */
int   settings_has(struct runlog *log, const char *key, ...) __attribute__((format(printf, 2, 3)));

/* A number, by one conversion of scanf, into *out: 1; 0 where there is none, and *out stays. */
int settings_scan(struct runlog *log, const char *conversion, void *out, const char *key, ...)
    __attribute__((format(printf, 4, 5)));

/* Store "KEY=VALUE". A format with line breaks has one setting a line: for numbers and words, which
 * have none themselves. */
int settings_set(struct runlog *log, struct err *err, const char *settings, ...)
    __attribute__((format(printf, 3, 4)));
