/* text_to.h: a receiver of text in pieces. */
#pragma once

#include "data/base/err.h"

/* fn is called for the pieces in order. If it returns other than 0, the sender stops and passes
 * that up. */
struct text_to {
    int (*fn)(void *arg, const char *text, size_t n, struct err *err);
    void *arg;
};
