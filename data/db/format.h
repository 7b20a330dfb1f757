/* format.h: formats of runs that older programs would misread, and therefore must refuse: those
 * whose rows are conversations, those of newer arithmetic or of several sources, those with frozen
 * blocks, those whose frozen blocks are packed, those whose frozen blocks lie in files of their
 * own, and snapshots. */
#pragma once

enum run_format { FORMAT_ROWS = 5, FORMAT_ARITHMETIC, FORMAT_FROZEN, FORMAT_PACKED,
                  FORMAT_IN_PLACE, FORMAT_SNAPSHOT = 11 };
