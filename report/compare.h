/* compare.h: what several runs are while they are compared: differences.c finds how their settings
 * differ, sweep.c sorts them and finds those that differ in the seed alone, and compare.c has both
 * done. */
#pragma once

#include "report/report.h"

struct compared {
    json_t *report;
    json_t *settings; // an object: each setting that is compared, and its text; "": it has none
    size_t  given;    // its place on the command line
    struct sweep_key {
        enum { SWEEP_NUMBER, SWEEP_TEXT, SWEEP_NAN, SWEEP_NONE } kind;
        double      number; // the smaller is better
        const char *text;
    } key; // what it is sorted by
};

/* The settings of a report that are compared. Caller json_decref()s. */
json_t *compare_settings(const json_t *report);
/* The settings in which another run differs from the first: an array of { setting, first, value }.
 * Caller json_decref()s. */
json_t *compare_differences(json_t *first, json_t *other);
/* An object whose keys are the settings that differ between any runs. Caller json_decref()s. */
json_t *compare_names(const struct compared *runs, size_t n);
/* Whether a setting is about the machine, not about what is computed. */
int compare_is_machine(const char *setting);

/* Sorts the runs by the evaluation, figure or setting of this name. An unknown name is misuse. */
int  sweep_sort(struct compared *runs, size_t n, const char *by, struct err *err);
/* Gives runs that differ in the seed alone the number of their group, and the first of each group
 * the section `seeds`: mean and standard deviation of each measure. */
void sweep_seeds(const struct compared *runs, size_t n);
