/* held_image.c: keeps an image from being written until a snapshot has it. */
#include "offload/stream/held_image.h"

void held_image_init(struct held_image *h)
{
    *h = (struct held_image){ .held = 0 };
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
}

void held_image_release(struct held_image *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mutex);
}

void held_image_begin(struct held_image *h, unsigned area)
{
    pthread_mutex_lock(&h->mutex);
    h->held = 1;
    h->asked = 0;
    h->area = area;
    pthread_mutex_unlock(&h->mutex);
}

int held_image_next(struct held_image *h)
{
    pthread_mutex_lock(&h->mutex);
    int gives = h->held && !h->asked;
    h->asked = 1;
    pthread_mutex_unlock(&h->mutex);
    return gives;
}

int held_image_wanted(struct held_image *h)
{
    pthread_mutex_lock(&h->mutex);
    int wanted = h->wanted;
    pthread_mutex_unlock(&h->mutex);
    return wanted;
}

void held_image_end(struct held_image *h)
{
    pthread_mutex_lock(&h->mutex);
    h->held = 0;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

void held_image_wait(struct held_image *h, unsigned area)
{
    pthread_mutex_lock(&h->mutex);
    while (h->held && h->area == area) {
        h->wanted = 1;
        pthread_cond_wait(&h->changed, &h->mutex);
    }
    h->wanted = 0;
    pthread_mutex_unlock(&h->mutex);
}
