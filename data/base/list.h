/* list.h: a first-in first-out list, linked through a pointer inside its members.
 *
 *     struct job { struct job *next; .. };
 *     struct list l;
 *     list_init(&l, offsetof(struct job, next));
 *     list_push(&l, job);
 *     job = list_pop(&l); */
#pragma once

#include <stddef.h>

struct list { void *first, *last; size_t link; }; // link: offset of that pointer in a member

static inline void list_init(struct list *l, size_t link)
{
    *l = (struct list){ NULL, NULL, link };
}

static inline void **list_next(const struct list *l, void *member)
{
    return (void **)(void *)((char *)member + l->link);
}

static inline void list_push(struct list *l, void *member)
{
    *list_next(l, member) = NULL;
    *(l->first ? list_next(l, l->last) : &l->first) = member;
    l->last = member;
}

static inline void *list_pop(struct list *l) // returns NULL if the list is empty
{
    void *member = l->first;

    if (member) {
        l->first = *list_next(l, member);
        *list_next(l, member) = NULL;
    }
    return member;
}

/* Removes a member, which must be in the list. */
static inline void list_remove(struct list *l, void *member)
{
    void **at = &l->first, *before = NULL;

    for (; *at != member; at = list_next(l, before))
        before = *at;
    *at = *list_next(l, member);
    if (l->last == member)
        l->last = before;
    *list_next(l, member) = NULL;
}

/* Removes the first members, at most `max`, and puts pointers to them into `out`. Returns their
 * number. */
static inline int list_take(struct list *l, void *out, int max)
{
    int n = 0;

    for (; n < max && l->first; n++)
        ((void **)out)[n] = list_pop(l);
    return n;
}
