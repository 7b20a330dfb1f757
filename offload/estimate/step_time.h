/* step_time.h: how long a step takes: the formula by which `siTrain plan` and `siTrain bench`
 * predict (docs/lab/scaling-model.md derives it). Pure arithmetic on seconds.
 *
 * A step needs time on the processor that computes, on the drives, and on the links that drives
 * share on their way to the host. Each of n devices does its share of the work of one; processor
 * and links stay the same. A *move* is one kind of transfer. On n devices it takes
 *
 *     T(n) = max(drive x share, up, down)   share: 1/n, or a little more if shards are uneven
 *
 * With T the time on one device and B the bandwidths, that is T / min(n, B_link / B_drive), as in
 * the scaling model of Smart-Infinity (HPCA 2024, arXiv 2403.06664):
 * T_opt(n) = max(T_opt / n, T_swap / min(n, B_PCIe / B_SSD)), T_total = T_opt + T_fwd + T_bwd. That
 * model leaves out the writes of gradients, which use the same links. Moves that overlap add up on
 * each resource: T of a sum is the maximum of sums.
 *
 * siTrain's step (docs/design.md, A step) then takes
 *
 *     max(T(first) + T(second) + F + A, T(load) + T(update + wire_forward - load) - early + last)
 *   + max(B + T(write_0), h + T(wire_backward + gradient))
 *
 * The first maximum is updates, and forward behind them. Nothing overlaps the load of block 0's
 * update. Forward begins when block 0 is updated. It has hardly anything to compute there, and
 * waits for block 1, whose update comes after all that block 0 writes. It ends after the last
 * layer, whose parameters are updated and read last. In between both advance evenly, so the longest
 * wait is one of these two. If devices are emulated, their updates of the other blocks, A, take
 * cores from forward.
 *
 * The second maximum is backward, and gradients behind it. The first gradient is written when the
 * last layer's is complete; block 0's is complete last. If that fills the link, devices get their
 * parts one after the other, and the first ones begin to update while the others wait. The step
 * waits for the last device, except for what it writes after the parameters:
 *
 *     early = min(T(tail), T(write_0) - share x (write_0 on one device))
 *
 * With several ranks each does this for its portions, and the network is one more resource: blocks
 * are gathered when they are read, gradients are exchanged before they are written. Nothing
 * overlaps the gather of the blocks that forward reads first, nor block 0's exchange, which is the
 * last one: gather_0 is added to forward, exchange_0 to backward. All ranks are taken to be equal.
 */
#pragma once

/* A move, in seconds on each resource. drive: all drives' work if one drive did it; up, down: the
 * busiest link in each direction; host: the host's processor, if it updates (base); in, out: the
 * network to this rank and away from it; files: the disk on which a base in place lies. */
struct step_move { double drive, up, down, host, in, out, files; };

struct step_work {
    double F, last;                 // seconds of forward; of its last layer
    double A;                       // seconds that emulated updates after block 1 take from forward
    double B, h;                    // seconds of backward with the head; until the last layer's
                                    // gradient is complete
    struct step_move update;        // all updates
    struct step_move first;         // block 0's update, until its parameters may be read
    struct step_move second;        // the rest of block 0's writes, and block 1's update as in
                                    // first
    struct step_move load;          // the reads of block 0's update
    struct step_move tail;          // the last layer's writes after its parameters: moments
    struct step_move wire_forward, wire_backward; // parameters read
    struct step_move gradient, write_0;           // all gradients written; block 0's
    double gather_0, exchange_0;    // seconds on the network for block 0; 0: one rank
};

/* The busiest device's part of the work of one drive: of everything, and of block 0. */
struct step_share { double all, block_0; };

/* What a step waits for. */
enum step_resource {
    STEP_COMPUTING, STEP_DRIVES, STEP_UP, STEP_DOWN, STEP_HOST, STEP_NETWORK, STEP_FILES,
    STEP_RESOURCES
};

/* Seconds. forward_by, backward_by: the resource that sets the pace of each. */
struct step_time { double forward, backward, step; enum step_resource forward_by, backward_by; };

/* Seconds that a move takes on n devices; sum and multiple of moves. */
double           step_move(const struct step_move *m, double share);
struct step_move step_move_sum(const struct step_move *a, const struct step_move *b);
struct step_move step_move_times(const struct step_move *m, double by);
/* Seconds until forward may compute layers; of a whole step. */
double           step_time_first(const struct step_work *w, struct step_share share);
struct step_time step_time(const struct step_work *w, struct step_share share);
/* A step whose phases follow one another, as in ZeRO-Infinity, Smart-Infinity's baseline, and in
 * Smart-Infinity itself. ZeRO-Infinity reads, updates and writes one subgroup after the other
 * (pipeline_read and pipeline_write are off by default). 16-bit parameters stay in the host's
 * memory. An update on devices sends the new ones up while the next updates go on. */
struct step_serial {
    double F, B;
    struct step_move gradient;            // written in backward
    struct step_move read, write, upload; // of the update: states and gradients; states; parameters
    double engine, host; // seconds of all updates' arithmetic: on one device; on the host
    int    overlapped;   // SU+O: one subgroup is loaded and computed while another is stored
};
struct step_time_serial { double forward, backward, update, step; };
struct step_time_serial step_time_serial(const struct step_serial *w, double share);

/* A step with --speculate, in which only block 0 waits for the norm: max(F + A + B + write_0 +
 * first, h + all moves). out.forward has the time beyond B. */
struct step_time step_time_speculating(const struct step_work *w, struct step_share share);

/* Next to steps, something else is moved (a snapshot): `extra` in each step. Between two steps of
 * so many, `every`, everything is waited for, so that an update has no forward beside it. */
struct step_beside {
    struct step_move extra;
    double           every;
    int              evenly;     // at any moment; 0: when the drives have nothing else to do
    int              speculates; // --speculate
};
/* The mean seconds of such a step. */
double step_time_beside(const struct step_work *w, struct step_share share,
                        const struct step_beside *b);
