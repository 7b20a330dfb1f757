/* format.h: formats of runs that older programs would misread, and therefore must refuse. */
#pragma once

enum run_format {
    FORMAT_ROWS = 5,   // rows are conversations
    FORMAT_ARITHMETIC, // newer arithmetic, or several sources
    FORMAT_FROZEN,     // some blocks are frozen
    FORMAT_PACKED,     // frozen blocks are packed
    FORMAT_IN_PLACE,   // frozen blocks stay in files of their own
    FORMAT_GOING_BACK, // a snapshot's states are being written over the run's (branches.h)
    FORMAT_SNAPSHOT,   // a snapshot
    FORMAT_PORTIONS,   // a snapshot whose states lie on the run's drives, with parity
};
