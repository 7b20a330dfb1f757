/* drives.h: which real drive each device of a run is on, for reports: devices that share one are
 * then counted together. */
#pragma once

#include "run/folder/session.h"

/* Store the number in the system (MAJOR:MINOR) of each device's drive as the setting drive.DEVICE.
 * Devices that store nothing have none. */
int drives_record(struct session *s, struct err *err);
