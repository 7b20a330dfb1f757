/* held_image.h: the image of mode mem that a snapshot's copier has still to read (stream.h,
 * stream_hold). The commit that would write over it waits. Any thread may make these calls. */
#pragma once

#include <pthread.h>

struct held_image {
    pthread_mutex_t mutex;
    pthread_cond_t  changed;
    int             held, asked, wanted; // it is held; the copier has it; a commit waits for it
    unsigned        area;
};

void held_image_init(struct held_image *h);
void held_image_release(struct held_image *h);

void held_image_begin(struct held_image *h, unsigned area);
/* True once: the copier has it now. */
int  held_image_next(struct held_image *h);
int  held_image_wanted(struct held_image *h);
void held_image_end(struct held_image *h);
/* Wait until the area may be written. */
void held_image_wait(struct held_image *h, unsigned area);
