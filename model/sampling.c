/* sampling.c: draws the next token from its logits. A heap finds the k-th largest logit, and the
 * most likely tokens one after the other, without sorting the vocabulary. */
#include "model/sampling.h"

#include "kernels/rng.h"
#include "kernels/update/reduce.h"

#include <math.h>
#include <string.h>

static void sift_down(float *heap, size_t n, size_t i)
{
    for (size_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        float held = heap[i];

        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (held <= heap[child])
            return;
        heap[i] = heap[child];
        heap[child] = held;
    }
}

/* The k-th largest of x[0..n). A heap holds the k largest so far, with the smallest on top. */
static float kth_largest(const float *x, size_t n, size_t k, float *heap)
{
    memcpy(heap, x, k * sizeof *heap);
    for (size_t i = k / 2; i-- > 0;)
        sift_down(heap, k, i);
    for (size_t i = k; i < n; i++) {
        if (x[i] <= heap[0])
            continue;
        heap[0] = x[i];
        sift_down(heap, k, 0);
    }
    return heap[0];
}

/* Keeps the smallest set of the most likely tokens whose weights sum to at least `wanted`, and sets
 * the other weights to 0. Among equal weights, lower ids come first. Returns the sum. heap: n
 * floats. */
static double nucleus(float *weight, size_t n, double wanted, float *heap)
{
    double sum = 0;
    float  least = 0;
    size_t left = 0, equal = 0;

    for (size_t i = 0; i < n; i++)
        if (weight[i] > 0)
            heap[left++] = -weight[i]; // negative, so that the most likely is on top
    for (size_t i = left / 2; i-- > 0;)
        sift_down(heap, left, i);
    while (left > 0 && sum < wanted) {
        equal = -heap[0] < least || equal == 0 ? 1 : equal + 1;
        least = -heap[0];
        sum += (double)least;
        heap[0] = heap[--left];
        sift_down(heap, left, 0);
    }
    for (size_t i = 0; i < n; i++)
        if (weight[i] < least || (weight[i] <= least && equal == 0))
            weight[i] = 0;
        else
            equal -= weight[i] <= least;
    return sum;
}

/* Keeps the weights that are at least this fraction of the largest, which is 1, and sets the others
 * to 0. Returns the sum. */
static double above_part(float *weight, size_t n, double part)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        weight[i] = (double)weight[i] < part ? 0 : weight[i];
        sum += (double)weight[i];
    }
    return sum;
}

void sampling_penalise(const struct sampling *s, const float *logits, size_t V, const int32_t *ids,
                       size_t n, float *out, unsigned char *marks)
{
    float penalty = (float)s->penalty;

    memcpy(out, logits, V * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        size_t id = (size_t)ids[i];

        if (id >= V || marks[id])
            continue;
        marks[id] = 1;
        out[id] = out[id] < 0 ? out[id] * penalty : out[id] / penalty;
    }
    for (size_t i = 0; i < n; i++)
        if ((size_t)ids[i] < V)
            marks[ids[i]] = 0;
}

int32_t sampling_pick(const struct sampling *s, const float *logits, size_t V, uint64_t sequence,
                      uint64_t position, float *scratch)
{
    int32_t largest = (int32_t)reduce_argmax(logits, V), last = largest;
    float   least = -INFINITY, *weight = scratch;
    double  total = 0, sum = 0;

    if (!(s->temperature > 0))
        return largest;
    if (s->top_k && s->top_k < V)
        least = kth_largest(logits, V, s->top_k, scratch);
    for (size_t i = 0; i < V; i++) {
        double above = ((double)logits[i] - (double)logits[largest]) / s->temperature;

        weight[i] = logits[i] >= least ? (float)exp(above) : 0.0f;
        total += (double)weight[i];
    }
    if (s->top_p > 0 && s->top_p < 1)
        total = nucleus(weight, V, s->top_p * total, scratch + V);
    if (s->min_p > 0)
        total = above_part(weight, V, s->min_p);
    double wanted = (double)rng_uniform(s->seed, sequence, position) * total;
    for (size_t i = 0; i < V; i++) {
        if (weight[i] <= 0)
            continue;
        sum += (double)weight[i];
        last = (int32_t)i;
        if (sum > wanted)
            break;
    }
    return last;
}
