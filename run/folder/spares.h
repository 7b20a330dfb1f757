/* spares.h: how many spare slots the devices of a new run get (enum run_spares): what --spare-slots
 * says, and where it says nothing as many as make training fast, if there is room for them. */
#pragma once

#include "run/folder/session.h"

/* Sets s->spares and s->run.spares from s->o, s->run (its activations, too: after the memory plan)
 * and, where `here`, what is free where the devices will be. `auto` takes the most whose devices
 * leave at least a tenth of what is free; where none does, the fewest. 1 if s->run.spares is
 * another than before, 0, or -errno. */
int spares_choose(struct session *s, int here, struct err *err);

/* Where device i will be (in mode mem the images): the bytes free there, how many devices share
 * them (that one, too), and whether it is a drive of its own. 0, and 0 bytes: it cannot be known,
 * and whoever makes it will say why. */
size_t spares_room(const struct session *s, size_t i, uint64_t *bytes, int *own);

/* Bytes on all devices with these spare slots, instead of s->run.spares. */
int spares_bytes(uint64_t *out, const struct session *s, enum run_spares spares, struct err *err);
