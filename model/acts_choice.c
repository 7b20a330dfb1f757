/* acts_choice.c: searches for the activations to keep, recompute and offload with which a step is
 * shortest. It tries all numbers of kept attentions and MLPs and of offloaded attentions. The
 * number of offloaded MLPs is found by bisection. */
#include "model/acts_choice.h"

#include <math.h>

/* Two choices take equally long if their steps differ by less than this fraction. */
static const double SAME = 0.003;

struct choice_sums choice_sums(const struct choice_problem *p, const struct placement *w)
{
    struct choice_sums s = { 0 };

    for (enum acts_part i = 0; i < ACTS_PARTS; i++) {
        const struct choice_part *part = &p->part[i];
        double kept = (double)w->of[i].kept, offloaded = (double)w->of[i].offloaded;

        s.kept += kept * part->kept;
        s.moved += offloaded * part->moved;
        s.push += offloaded * part->push;
        s.back += offloaded * part->fetch + ((double)p->n_layer - kept - offloaded) * part->again;
    }
    s.moved = fmax(s.moved - p->stays, 0);
    return s;
}

/* Adds the time of so many more bytes to the move `m`. `byte` is the time of one byte. */
static double with_bytes(const struct step_move *m, const struct step_move *byte, double bytes)
{
    struct step_move more = step_move_times(byte, bytes), all = step_move_sum(m, &more);

    return step_move(&all, 1);
}

static double seconds_of(const struct choice_problem *p, const struct choice_sums *s)
{
    return fmax(p->before + p->F + s->push, with_bytes(&p->forward, &p->write, s->moved)) +
           fmax(p->B + s->back, with_bytes(&p->backward, &p->read, s->moved));
}

double choice_seconds(const struct choice_problem *p, const struct placement *w)
{
    struct choice_sums s = choice_sums(p, w);

    return seconds_of(p, &s);
}

/* ---- the search ---- */

/* The search runs twice. The first run, with most = 0, finds the shortest step. The second finds
 * the choice that moves the fewest bytes in a step of at most `most` seconds. */
struct search {
    const struct choice_problem *p;
    int                          offloads;
    double                       most;
    int                          found;
    struct placement             best;
    double                       seconds, moved;
};

static void try_placement(struct search *s, const struct placement *w)
{
    struct choice_sums of = choice_sums(s->p, w);
    double             seconds = seconds_of(s->p, &of);
    int better = !s->found || (s->most > 0 && of.moved != s->moved ? of.moved < s->moved
                                                                   : seconds < s->seconds);

    if (!better || (s->most > 0 && seconds > s->most))
        return;
    s->found = 1;
    s->best = *w;
    s->seconds = seconds;
    s->moved = of.moved;
}

static double mlp_seconds(const struct search *s, struct placement *w, size_t n)
{
    w->of[ACTS_MLP].offloaded = n;
    return choice_seconds(s->p, w);
}

/* Tries all numbers of offloaded MLPs; the rest of `w` stays. The time is convex in that number, so
 * bisection finds the shortest step, and then the smallest number that is short enough. */
static void search_mlp(struct search *s, struct placement w)
{
    size_t least = 0, most = s->offloads ? s->p->n_layer - w.of[ACTS_MLP].kept : 0;

    while (least < most) {
        size_t middle = least + (most - least) / 2;

        if (mlp_seconds(s, &w, middle + 1) < mlp_seconds(s, &w, middle))
            least = middle + 1;
        else
            most = middle;
    }
    for (most = least, least = 0; s->most > 0 && least < most;) {
        size_t middle = least + (most - least) / 2;

        if (mlp_seconds(s, &w, middle) <= s->most)
            most = middle;
        else
            least = middle + 1;
    }
    w.of[ACTS_MLP].offloaded = most;
    try_placement(s, &w);
}

/* Tries all placements with these numbers of kept attentions and MLPs. Inputs get the rest of the
 * pool. */
static void search_kept(struct search *s, size_t attn, size_t mlp)
{
    const struct choice_problem *p = s->p;
    struct placement             w = { .of[ACTS_ATTN].kept = attn, .of[ACTS_MLP].kept = mlp };
    double room = p->pool + (s->offloads ? 0 : p->spare) - choice_sums(p, &w).kept;
    double                       inputs = floor(room / p->part[ACTS_INPUT].kept);

    if (room < 0)
        return;
    w.of[ACTS_INPUT].kept = inputs >= (double)p->n_layer ? p->n_layer : (size_t)inputs;
    w.of[ACTS_INPUT].offloaded = p->n_layer - w.of[ACTS_INPUT].kept;
    if (w.of[ACTS_INPUT].offloaded && !s->offloads)
        return;
    for (size_t n = 0; n <= (s->offloads ? p->n_layer - attn : 0); n++) {
        w.of[ACTS_ATTN].offloaded = n;
        search_mlp(s, w);
    }
}

static void search_all(struct search *s)
{
    for (s->offloads = 0; s->offloads <= s->p->may_offload; s->offloads++)
        for (size_t attn = 0; attn <= s->p->n_layer; attn++)
            for (size_t mlp = 0; mlp <= s->p->n_layer; mlp++)
                search_kept(s, attn, mlp);
}

int choice_best(struct placement *out, const struct choice_problem *p)
{
    struct search shortest = { .p = p }, lightest = { .p = p };

    search_all(&shortest);
    lightest.most = shortest.seconds * (1 + SAME);
    if (shortest.found)
        search_all(&lightest);
    *out = lightest.best;
    return shortest.found ? 0 : -1;
}

struct placement choice_ssdtrain(const struct choice_problem *p)
{
    double L = (double)p->n_layer, bytes = 0, kept = 0, rate = step_move(&p->write, 1);
    size_t n = 0, room;

    for (enum acts_part i = 0; i < ACTS_PARTS; i++) {
        bytes += p->part[i].moved;
        kept += p->part[i].kept;
    }
    while (n < p->n_layer) {
        double earlier = (double)n;

        // both sides of the condition are multiplied by the inverse of the bandwidth
        if ((earlier + 2) * bytes * rate > 3 * p->F - 2 * earlier * p->F / L)
            break;
        n++;
    }
    room = p->pool >= L * kept ? p->n_layer : (size_t)(p->pool / kept);
    return placement_offload(p->n_layer, p->n_layer - n < room ? p->n_layer - n : room);
}
