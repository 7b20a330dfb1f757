/* step_time.h: how long a step takes: the one formula by which `siTrain plan` and `siTrain bench`
 * predict (docs/scaling-model.md derives it). Pure arithmetic on seconds.
 *
 * A step asks for time of the processor that computes, of the drives, and of the links that the
 * drives share on their way to the host. Of n devices each does its share of what one would have to
 * do; processor and links stay as they are. So a move, which is one kind of transfers, takes
 *
 *     T(n) = max(drive x share, up, down)   share: 1/n, or a little more: shards are uneven
 *
 * With T the time on one device and B the bandwidths, that is T / min(n, B_link / B_drive), as in
 * the scaling model of Smart-Infinity (HPCA 2024, arXiv 2403.06664) that a replication uses:
 * T_opt(n) = max(T_opt / n, T_swap / min(n, B_PCIe / B_SSD)), T_total = T_opt + T_fwd + T_bwd. It
 * leaves out the writes of gradients, which are on the same links. Moves that are under way at the
 * same time add up on each resource: T of a sum is the maximum of sums.
 *
 * siTrain's step (docs/design.md, A step) then takes
 *
 *     max(T(first) + T(second) + F + A, T(load) + T(update + wire_forward - load) - early + last)
 *   + max(B + T(write_0), h + T(wire_backward + gradient))
 *
 * Updates, and forward behind them: what block 0's update loads has nothing beside it; forward
 * begins when block 0 is updated, has hardly anything to compute there, and waits for block 1,
 * whose update comes behind all that block 0 writes. It ends after the last layer, whose
 * parameters are updated and read last. In between both go on evenly, so one of these two is the
 * longest wait. Where devices are emulated, their updates of the other blocks, A, take cores from
 * forward.
 * Then backward, and gradients behind it: they begin to be written when that of the last
 * layer is there, and the one of block 0 is complete last. Where the link is full of that, devices
 * get their parts one after the other, and the first begin to update while the others wait. The
 * last are waited for, but not for what they write after the parameters:
 *
 *     early = min(T(tail), T(write_0) - share x (write_0 on one device))
 *
 * Of several ranks each does that with its portions, and the network is one more resource: blocks
 * are gathered as they are read, gradients exchanged before they are written. Nothing is beside
 * the gather of what forward reads first, and nothing beside block 0's exchange, which is the last
 * one: gather_0 is added to forward, exchange_0 to backward. Ranks are taken to be alike. */
#pragma once

/* Seconds: of all drives' work if one drive did it; of the busiest link on the way up, and down; of
 * the host's processor where that updates (base); of the network between ranks, to this one and
 * away from it. */
struct step_move { double drive, up, down, host, in, out; };

struct step_work {
    double F, last;                 // computing forward; of it the last layer
    double A;                       // what emulated updates behind block 1 take from computing
    double B, h;                    // backward with the head; of it until the last layer's gradient
    struct step_move update, first; // all updates; block 0's, until its parameters may be read
    struct step_move second;        // what block 0's writes later; block 1's, as first
    struct step_move load;          // what block 0's reads
    struct step_move tail;          // what the last layer's writes after its parameters: moments
    struct step_move wire_forward, wire_backward; // parameters read
    struct step_move gradient, write_0;           // gradients written; of them block 0's
    double gather_0, exchange_0;                  // over the network, of block 0; 0: one rank
};

/* Of the work of one drive, the part of the busiest of n: of everything, and of block 0. */
struct step_share { double all, block_0; };

/* What is waited for. */
enum step_resource {
    STEP_COMPUTING, STEP_DRIVES, STEP_UP, STEP_DOWN, STEP_HOST, STEP_NETWORK, STEP_RESOURCES
};

/* forward_by, backward_by: what sets the pace of each. */
struct step_time { double forward, backward, step; enum step_resource forward_by, backward_by; };

double           step_move(const struct step_move *m, double share);
/* Until forward may compute layers. */
double           step_time_first(const struct step_work *w, struct step_share share);
struct step_move step_move_sum(const struct step_move *a, const struct step_move *b);
struct step_move step_move_times(const struct step_move *m, double by);
struct step_time step_time(const struct step_work *w, struct step_share share);
/* The same where nothing overlaps but what is said, as in ZeRO-Infinity, Smart-Infinity's baseline,
 * which reads, updates and writes one subgroup after the other (pipeline_read and pipeline_write
 * are off unless they are asked for), and in Smart-Infinity itself. The 16-bit parameters stay in
 * the host's memory; an update on devices sends the new ones up, beside the updates that follow. */
struct step_serial {
    double F, B;
    struct step_move gradient, read, write, upload; // of the update: states and gradients; states
    double engine, host; // arithmetic of all updates: if one device made them; if the host does
    int    overlapped;   // SU+O: one subgroup is loaded and computed while another is stored
};
struct step_time_serial { double forward, backward, update, step; };
struct step_time_serial step_time_serial(const struct step_serial *w, double share);

/* With --speculate, where only block 0 waits for the norm: max(F + A + B + write_0 + first, h + all
 * that moves). forward has what is beyond B. */
struct step_time step_time_speculating(const struct step_work *w, struct step_share share);
