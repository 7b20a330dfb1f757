/* text_to.h: who takes text in pieces. */
#pragma once

#include "data/base/err.h"

/* fn is called for the pieces in order. Non-zero stops and is passed up. */
struct text_to {
    int (*fn)(void *arg, const char *text, size_t n, struct err *err);
    void *arg;
};
