/* devices_place.h: the paths of a run's devices, and which paths are refused. Calls return 0 or
 * -errno with a sentence, unless they say otherwise. A path they give is malloced, the caller's. */
#pragma once

#include "offload/layout/config.h"
#include "offload/layout/store.h"

/* The name of cfg's set of devices (run_config.layout), as it stands in the names of their files.
 */
const char *devices_layout(const struct run_config *cfg);

/* The name of device i's file in a folder given with --device, for the run of this id. older: as in
 * versions that cut the id to 8 digits, which two runs may share. */
enum { DEVICES_NAME = 2 * SUPERBLOCK_WORD + 64 };
void devices_name(char out[DEVICES_NAME], const char *id, const char *layout, size_t i, int older);
/* The name of device i in RUN. */
void devices_name_in_run(char out[DEVICES_NAME], const char *layout, size_t i);

/* The superblock that device i of the run should have, if it has so many bytes. */
struct superblock devices_super(const struct run_config *cfg, uint64_t bytes, size_t i);

/* The path of device i's file or block device. In a given folder it is a file named after the run.
 * create: the file need not exist, and its folder in RUN is made. */
int  devices_path(char **out, const struct run_config *cfg, size_t i, int create, struct err *err);

/* 1: device i is not there: its file, or its drive; or its drive carries no run's states. 0: there
 * is something, or this user may not look. */
int  devices_gone(const struct run_config *cfg, size_t i);

/* True if device i is a file of fewer than `bytes` bytes. */
int  devices_cut(const struct run_config *cfg, size_t i, uint64_t bytes);

/* Refuses a file of device i that has other names (hard links): what is written to it would be seen
 * under these. */
int  devices_named_once(const struct run_config *cfg, size_t i, struct err *err);

/* Whose superblock, *found, the file or drive at `path` has, or the page that was read there. */
enum device_whose {
    DEVICE_NONE,  // no superblock can be read; *found is not set
    DEVICE_OWN,   // device i of this run
    DEVICE_TAKEN, // device i with another owner's word: a copy's, or a snapshot's
    DEVICE_OTHER, // another device's
};
enum device_whose devices_whose(struct superblock *found, const struct run_config *cfg, size_t i,
                               const char *path);
enum device_whose devices_page_whose(struct superblock *found, const struct run_config *cfg,
                                    size_t i, const void *page);
/* Returns -EXDEV and says that device i was taken, and what makes the run's again. */
int  devices_refuse_taken(const struct run_config *cfg, size_t i, const char *path,
                          struct err *err);

/* True if the path, with all links resolved, leads into RUN and to RUN's file system: a copy of the
 * folder then includes it. False if nothing is found. */
int  devices_inside(const struct run_config *cfg, const char *path);

/* Refuse a place for states that would be in RAM, outside --host-mem and lost with the power: a
 * folder or new file on a tmpfs, unless in_ram allows it; or a name in /dev that does not exist,
 * which is a missing drive. place: the value of `option` ("--device"), or RUN if option is NULL. It
 * need not exist yet. */
int devices_place_check(const char *place, const char *option, int in_ram, struct err *err);

/* Refuse a block device that may not be written over: one that is mounted or in use; a loop device
 * whose file another loop device shows; and, unless `force`, one with a signature or the states of
 * a run, which the sentence names. option: the name of the option in the sentence, or NULL. Every
 * writer to a device that is not known to be its run's asks here first. 0 if path is no block
 * device. */
int devices_free_check(const char *path, const char *option, int force, struct err *err);
/* Refuses what a drive carries, as devices_free_check does, if this process alone has it open. */
int devices_empty_check(const char *path, const char *option, int force, struct err *err);

/* Refuse a place for --act-device: what devices_place_check refuses; a file that exists, or the
 * file or drive of a device in cfg->device_paths (NULL: none); and, unless cfg->force_device, a
 * block device with a signature or the states of a run. */
int devices_act_check(const struct run_config *cfg, const char *place, struct err *err);

/* Remove a device that the caller has locked and knows to be this run's: unlink a file, or clear a
 * drive's superblock. */
int devices_erase(int fd, const char *path, struct err *err);

/* The folder that `place` is, or that its file is or would be in, with links resolved. *out is NULL
 * if there is none (errno says why) or if the place is a block device (errno 0). 0 or -ENOMEM. */
int devices_folder(char **out, const char *place, struct err *err);
