"""paper_facts.py: what Smart-Infinity (H. Jang et al., HPCA 2024, arXiv 2403.06664) published,
and nothing that they did not: the one place for it, prices too. Times, shares and speeds are from the papers' sentences and tables where they have them;
all others were read from the vector drawings of Smart-Infinity's figures (its camera-ready PDF in github.com/AIS-SNU/smart-infinity), to about 1%."""

# Seconds an iteration, (FW + BW + gradient offload, all of it), by mode and SSDs: Fig. 9 (NVIDIA A5000, batch 4).
BREAKDOWN = {
    "GPT-2 4.0B": {6: {"base": (6.25, 23.80), "su": (5.99, 19.03), "su+o": (6.09, 18.36), "su+o+c": (4.80, 15.57)},
                   10: {"base": (5.88, 23.64), "su": (5.99, 15.62), "su+o": (6.45, 14.74), "su+o+c": (4.85, 12.15)}},
    "GPT-2 8.4B": {6: {"base": (12.34, 49.99), "su": (12.34, 40.43), "su+o": (12.10, 39.56), "su+o+c": (9.36, 35.21)},
                   10: {"base": (12.10, 48.88), "su": (11.97, 32.47), "su+o": (12.10, 31.60), "su+o+c": (9.36, 26.38)}},
    "BERT 4.0B": {6: {"base": (6.12, 23.67), "su": (6.64, 19.64), "su+o": (6.54, 18.81), "su+o+c": (4.72, 15.96)},
                  10: {"base": (5.91, 23.47), "su": (5.81, 14.87), "su+o": (5.91, 14.30), "su+o+c": (4.72, 12.02)}},
    "BERT 8.3B": {6: {"base": (11.58, 49.24), "su": (13.82, 41.78), "su+o": (11.96, 39.67), "su+o+c": (9.22, 33.33)},
                  10: {"base": (11.71, 48.25), "su": (13.94, 32.83), "su+o": (12.83, 30.22), "su+o+c": (9.22, 25.13)}},
    # Fig. 10, larger models; the paper has no SU there
    "GPT-2 16.6B": {6: {"base": (23.3, 95.9), "su+o": (23.9, 76.7), "su+o+c": (18.3, 68.8)},
                    10: {"base": (23.4, 96.0), "su+o": (23.4, 60.9), "su+o+c": (17.9, 51.8)}},
    "GPT-2 33.0B": {6: {"base": (46.6, 190.8), "su+o": (48.7, 158.4), "su+o+c": (36.4, 139.7)},
                    10: {"base": (46.7, 188.9), "su+o": (47.9, 119.7), "su+o+c": (36.5, 100.7)}},
}
UPDATE_SHARE = 0.7557  # of base, GPT-2 8.4B with 6 SSDs: section VII-C

# What section VII-C says in words, over all models of Fig. 9: speed over base on as many SSDs
SPOKEN = {6: {"su": (1.18, 1.24)}, 10: {"su": (1.54, 1.60), "su+o": (1.60, 1.66), "su+o+c": (1.85, 1.98)}}

# Table I: what crosses the system interconnect in an iteration with Adam, in M, (read, written); c: the part of the gradient that is sent
TRAFFIC = {"base": "6 optimizer states + 2 gradients, 6 + 2", "su": "2 parameters, 2 gradients", "su+o+c": "2 parameters, c x 2 gradients"}

# Fig. 11(a): GPT-2 4.0B, speed over base with one SSD
DEVICES = (1, 2, 4, 6, 8, 10)
SPEED = {
    "A5000": {"base": (1.00, 1.55, 2.23, 2.26, 2.26, 2.27), "su+o": (0.81, 1.48, 2.55, 2.92, 3.25, 3.63), "su+o+c": (0.89, 1.62, 2.80, 3.45, 3.75, 4.42)},
    "A100": {"base": (1.00, 1.54, 2.27, 2.44, 2.42, 2.48), "su+o": (0.80, 1.45, 2.58, 3.18, 3.81, 4.47), "su+o+c": (0.75, 1.38, 2.65, 3.34, 4.39, 5.24)},
}
# Fig. 11(b): with 10 SSDs; FW + BW of SU+O+C, which sends nearly no gradients, is what the GPU takes
COMPUTING = {"A5000": 4.87, "A100": 3.29}

# Fig. 12: GPT-2 4.0B
OPTIMIZERS = {
    "sgd": {6: {"base": (5.83, 18.68), "su+o": (5.41, 15.94), "su+o+c": (4.33, 14.83)}, 10: {"base": (5.88, 18.85), "su+o": (5.50, 11.87), "su+o+c": (4.33, 10.56)}},
    "adagrad": {6: {"base": (6.07, 19.05), "su+o": (5.44, 16.00), "su+o+c": (4.15, 15.34)}, 10: {"base": (5.86, 18.87), "su+o": (5.39, 11.81), "su+o+c": (4.14, 10.54)}},
}

# Fig. 14, GPT-2 4.0B, GB/s: between a SmartSSD's SSD and its FPGA; the FPGA's updater, and decompressor and updater
DRIVE_READ, DRIVE_WRITE, UPDATER, DECOMPRESSOR = 2.78, 1.64, 8.2, 2.93

# Fig. 15 and section VII-I: GFLOPS/$ with an A5000, and the prices it names, in dollars
COST = {"base": (0.047, 0.071, 0.104, 0.110, 0.107, 0.108), "su+o+c": (0.036, 0.063, 0.106, 0.124, 0.152, 0.170)}
PRICE = {"server": 45000, "A5000": 2000, "A100": 7000, "SSD": 400, "SmartSSD": 2400}

# Fig. 16: seconds an iteration of SU+O (100) and of SU+O+C by per cent of the gradient's bytes, GPT-2 4.0B
RATIOS = {6: {100: 18.36, 10: 18.52, 5: 16.61, 2: 15.54, 1: 16.23}, 10: {100: 14.75, 10: 14.11, 5: 13.16, 2: 12.15, 1: 12.54}}

# Fig. 17: GPT-2 1.16B on 1 to 3 A4000 in the SSDs' box, 10 SSDs; "ours" is SU+O+C
CONGESTED = {1: {"base": (3.71, 9.04), "su+o+c": (3.50, 5.46)}, 2: {"base": (3.21, 8.50), "su+o+c": (2.88, 4.95)}, 3: {"base": (2.94, 8.19), "su+o+c": (2.50, 4.41)}}

# Table IV: development sets; accuracy in per cent by the gradient's bytes (100: dense, to which SU+O is identical)
TABLE_IV = {
    "BERT-0.34B": {"SST-2": {100: 93.98, 10: 94.95, 5: 95.41, 2: 95.41, 1: 95.53}, "QNLI": {100: 94.23, 10: 94.16, 5: 93.96, 2: 94.30, 1: 94.03},
                   "QQP": {100: 91.95, 10: 91.69, 5: 91.90, 2: 91.80, 1: 91.75}, "MNLI": {100: 89.60, 10: 89.42, 5: 89.24, 2: 89.50, 1: 89.61}},
    "GPT2-0.77B": {"SST-2": {100: 94.27, 10: 94.27, 5: 94.38, 2: 94.27, 1: 94.27}, "QNLI": {100: 91.60, 10: 91.21, 5: 91.30, 2: 90.83, 1: 90.66},
                   "QQP": {100: 90.96, 10: 90.71, 5: 90.38, 2: 90.00, 1: 89.77}, "MNLI": {100: 85.95, 10: 85.71, 5: 85.31, 2: 85.05, 1: 84.57}},
    "GPT2-1.6B": {"SST-2": {100: 95.18, 10: 94.84, 5: 94.38, 2: 94.61, 1: 94.72}, "QNLI": {100: 92.22, 10: 91.74, 5: 91.65, 2: 91.62, 1: 91.45},
                  "QQP": {100: 91.45, 10: 91.15, 5: 91.04, 2: 90.83, 1: 90.56}, "MNLI": {100: 87.32, 10: 86.71, 5: 86.88, 2: 86.67, 1: 86.58}},
}


# ---- the proportions of its machine, which ours is given ----

MODEL_BYTES = 8.0e9  # M of GPT-2 4.0B: 16-bit parameters


def proportions():
    """What a run's links are made of: a drive's reading and writing over the link each way, and the GPU's seconds an iteration over M / link.
    The link is what base shows of it with 10 SSDs: 8M read in its update, which more SSDs do not make shorter (6M written beside them)."""
    computing, seconds = BREAKDOWN["GPT-2 4.0B"][10]["base"]
    link = 8 * MODEL_BYTES / (seconds - computing) / 1e9  # GB/s
    return {"link": link, "read": DRIVE_READ / link, "write": DRIVE_WRITE / link, "computing": COMPUTING["A5000"] * link * 1e9 / MODEL_BYTES}


def seconds_as_written(mode, devices, billions, computing, compress=0.02, hidden=None):
    """Seconds of an iteration as a sum of what the paper's text says happens one after the other: forward and backward (`computing`, which is published),
    then the update: base moves 8M up its link; SU reads 8M and writes 6M, each CSD its share, and sends 2M of updated parameters up, of which the handler
    (su+o, su+o+c) hides a part."""
    m, p = 2 * billions, proportions()
    if mode == "base":
        return computing + max(8 * m / p["link"], (8 * m / DRIVE_READ + 6 * m / DRIVE_WRITE) / devices)
    hidden = (handler_hides() if hidden is None else hidden) if mode != "su" else 0
    gradient = 2 * m * (compress if mode == "su+o+c" else 1)
    return computing + ((6 * m + gradient) / DRIVE_READ + 6 * m / DRIVE_WRITE) / devices + (1 - hidden) * 2 * m / p["link"]


def handler_hides():
    """The part of the parameters' way up that SU+O and SU+O+C of GPT-2 4.0B do not show: the one number that is fitted, and to this model alone."""
    parts = []
    for devices, modes in BREAKDOWN["GPT-2 4.0B"].items():
        for mode in ("su+o", "su+o+c"):
            computing, seconds = modes[mode]
            parts.append((seconds_as_written(mode, devices, 4.0, computing, hidden=0) - seconds) / (2 * 8.0 / proportions()["link"]))
    return sum(parts) / len(parts)
