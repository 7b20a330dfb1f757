/* spares.h: chooses the number of spare slots on the devices of a new run (enum run_spares).
 * --spare-slots decides; its default takes as many as speed up training, if there is room. */
#pragma once

#include "run/folder/session.h"

/* Set s->spares and s->run.spares from s->o and s->run. Call it after the memory plan, because
 * activations take room, too. here: the devices will be on this machine, so free space counts.
 * `auto` takes the largest number whose devices leave at least a tenth of the free space, otherwise
 * the smallest. 1 if s->run.spares changed, 0 if not, or -errno. */
int spares_choose(struct session *s, int here, struct err *err);

/* The free space for device i (in mode mem: for the images). Returns the number of devices that
 * share it, including i. *own: true if device i is a drive of its own. 0, and *bytes 0: unknown;
 * creating the device will report the reason. */
size_t spares_room(const struct session *s, size_t i, uint64_t *bytes, int *own);

/* True if a base in place lies on the file system of a device. */
int spares_base_beside(const struct session *s);

/* Total bytes on all devices if they had these spare slots instead of s->run.spares. */
int spares_bytes(uint64_t *out, const struct session *s, enum run_spares spares, struct err *err);
