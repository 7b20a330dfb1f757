/* lost.h: `siTrain restore`: devices of a run that are gone, such as a drive that has failed. They
 * are made again, in their places or in others, with the run's layout. Their states come from a
 * snapshot (going_back.h). In mode mem, files in RUN stand for devices: the images, and frozen. */
#pragma once

#include "run/folder/session.h"

/* How many devices are gone: their files, or in mode mem the newest image or RUN/frozen. A drive
 * counts as gone if it is not there, or carries no states; a file, if it was cut. */
int lost_count(const struct session *s, size_t *n, struct err *err);

/* Refuse a place that holds another device's states or those of a copy of the run, that leads into
 * another run, or that has a file with the device's superblock that run.db does not name
 * (moved_file): it may be another run's. Devices with a new place in `named` are passed over; NULL:
 * none is. */
int lost_places_check(const struct session *s, const struct opt_strings *named, struct err *err);

/* Before anything is read: lost_places_check. A run that is a copy, or was moved, whose devices may
 * be another run's, is refused with the sentence of moved_check, unless `named` has a place for
 * each device. */
int lost_apart_check(const struct session *s, const struct opt_strings *named, struct err *err);

/* Device I is to be at PATH from now on: "I=PATH". The device must be gone, or its place hold
 * another's states, or PATH be where it was, or where a killed process has made it. In a run that
 * lost_apart_check may refuse, no device may be at PATH. s is open as SESSION_RESTORE. Only s->o
 * and s->run change. Returns 1 if the device has another place now, 0 if it keeps its place, or
 * -errno. */
int lost_place(struct session *s, const char *text, struct err *err);

/* Before anything changes: refuse places where a device cannot be made again: one that is not
 * there, may not be written, is too small, or may be a mount point whose drive is not mounted.
 * named: I=PATH of each device whose place the user has named, which may be such a mount point. */
int lost_check(const struct session *s, const struct opt_strings *named, struct err *err);

/* Whether "I=PATH" names a device that is gone, or may be another run's (lost_apart_check). */
int lost_is(const struct session *s, const char *text);

/* Make the devices that are gone, and record where all are. Files get their superblock and their
 * length; drives are refused as for a new run. A file that was cut gets its length again if it has
 * the run's superblock; one of another device is refused; otherwise it stays as PATH.cut-HEX, and a
 * new one is made. In mode mem, RUN/frozen comes from the snapshot. *untouched: it failed, and all
 * is as it was. */
int lost_make(struct session *s, const struct session *snapshot, int *untouched, struct err *err);

/* If rc is a failure, and a device of the run is gone, name `siTrain restore` in the sentence.
 * Returns rc. */
int lost_explain(struct session *s, int rc, struct err *err);
