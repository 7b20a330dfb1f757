/* questions.c: finds the queries of data/db/sql by name. To add one, add a file there and a row
 * here. */
#include "data/db/questions.h"

#include "data/base/table.h"

// in a report's order; 1: has one row
#define QUESTIONS(ROW)                                                                             \
    ROW(steps, 1) ROW(times, 1) ROW(curve, 0) ROW(breakdown, 1) ROW(breakdown_serial, 1)           \
    ROW(breakdown_steps, 0) ROW(phases, 0) ROW(waits, 0) ROW(update, 0) ROW(timeline, 0)           \
    ROW(traffic, 0) ROW(written, 0) ROW(overlap, 0) ROW(bandwidth, 0) ROW(drives, 0)               \
    ROW(devices, 0) ROW(memory, 0) ROW(results, 0) ROW(evals, 0) ROW(choices, 0)                   \
    ROW(skipped, 0) ROW(notices, 0) ROW(processes, 0) ROW(settings, 0)

#define FILE_OF(name, one)                                                                         \
    __asm__(".pushsection .rodata\n"                                                               \
            "question_" #name ": .incbin \"data/db/sql/" #name ".sql\"\n"                          \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char question_##name[];
QUESTIONS(FILE_OF)

#define ROW_OF(name, one) { #name, question_##name, one },
static const struct question questions[] = { QUESTIONS(ROW_OF) };
enum { N_QUESTIONS = sizeof questions / sizeof *questions };

const struct question *question_at(size_t i) { return i < N_QUESTIONS ? &questions[i] : NULL; }

const struct question *question_find(const char *name)
{
    return TABLE_FIND(questions, name);
}
