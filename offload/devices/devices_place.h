/* devices_place.h: where the devices of a run are, and which places are refused for them. */
#pragma once

#include "offload/layout/config.h"
#include "offload/layout/store.h"

/* The name of a set of devices in the names of their files. */
const char *devices_layout(const struct run_config *cfg);

/* What device i's file in a folder given with --device is called, in the run of this id. older:
 * versions that cut the id to 8 digits, which two runs may share. */
enum { DEVICES_NAME = 2 * STORE_LAYOUT + 64 };
void devices_name(char out[DEVICES_NAME], const char *id, const char *layout, size_t i, int older);
/* And in RUN. */
void devices_name_in_run(char out[DEVICES_NAME], const char *layout, size_t i);

/* The file or block device behind device i, malloced: a folder that was given has a file named
 * after the run. create: it need not be there, and its folder in RUN is made. */
int  devices_path(char **out, const struct run_config *cfg, size_t i, int create, struct err *err);

/* Whether what the path leads to lies in RUN, over all links, and on its file system: who copies
 * the folder copies it, too. What cannot be found does not. */
int  devices_inside(const struct run_config *cfg, const char *path);

/* Refuse a place for states that would be in RAM, which is beside all promises about memory, and
 * gone with the power: a folder or new file on a tmpfs, unless in_ram allows it, or in /dev, where
 * it is a drive that is not there. place: what `option` ("--device") says, or with NULL RUN, which
 * need not be there yet. */
int devices_place_check(const char *place, const char *option, int in_ram, struct err *err);

/* Refuse a block device that may not be written over: one that is mounted or in use and, unless
 * `force`, one that carries a signature or states of a run, which the sentence names. option: what
 * the sentence calls it by, or NULL. Whatever writes to a device that is not known to be its run's
 * asks here first. 0 for what is no block device. */
int devices_free_check(const char *path, const char *option, int force, struct err *err);
/* The same of one that this process has open alone: what it carries. */
int devices_empty_check(const char *path, const char *option, int force, struct err *err);

/* Refuse a place for --act-device: what devices_place_check refuses, a file that is there, and,
 * unless cfg->force_device, a block device that carries anything, states of a run too. */
int devices_act_check(const struct run_config *cfg, const char *place, struct err *err);

/* Give up what holds a device, which is locked and known to be ours: the file loses its name, a
 * drive its superblock. */
int devices_erase(int fd, const char *path, struct err *err);

/* The folder that a place is, or that its file is or would be in, without links, malloced; NULL
 * where there is none (errno) or the place is a block device (errno 0). -ENOMEM and a sentence. */
int devices_folder(char **out, const char *place, struct err *err);
