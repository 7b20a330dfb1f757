/* doing.h: what the program was doing when the power was cut, of what concerns snapshots. */
#pragma once

enum doing { DOING_ELSE, DOING_SNAPSHOT, DOING_PARITY, DOING_ROTATION, DOING_BACK, DOING_RESTORE,
             DOING_MODELS, DOINGS };

void       doing_reset(void); // before a life
enum doing doing_at_cut(void);
