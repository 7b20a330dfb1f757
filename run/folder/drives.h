/* drives.h: records the real drive of each device of a run. Reports add up devices on one drive. */
#pragma once

#include "run/folder/session.h"

/* Store MAJOR:MINOR of each device's drive as the setting drive.DEVICE. Devices that store nothing
 * are skipped. */
int drives_record(struct session *s, struct err *err);
