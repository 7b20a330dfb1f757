/* snapshot_traffic.c: computes the bytes that one snapshot moves. All states are read once and
 * written once; parity reads what was written once more; in the end, everything is read back. */
#include "offload/upkeep/snapshot_traffic.h"

#include "offload/devices/image.h"
#include "offload/upkeep/parity_files.h"
#include "offload/upkeep/snapshot.h"

/* A copy is read and sent; another one comes, is written, and read back. */
static void add_kept(struct link_meter *out, uint64_t states)
{
    out->bytes[LINK_FILES][CLASS_SNAPSHOT][LINK_READ] += 2 * states;
    out->bytes[LINK_FILES][CLASS_SNAPSHOT][LINK_WRITE] += states;
    out->bytes[LINK_NETWORK][CLASS_SNAPSHOT][LINK_WRITE] += states;
    out->bytes[LINK_NETWORK][CLASS_SNAPSHOT][LINK_READ] += states;
}

int snapshot_traffic(struct link_meter *out, const struct run_config *run, size_t parity, int kept,
                     struct err *err)
{
    enum link_kind from = run->mode == RUN_MEM ? LINK_FILES : LINK_HOST,
                   to = parity ? LINK_HOST : LINK_FILES;
    uint64_t       states, made[LINK_DIRS] = { 0 };
    int            rc = snapshot_bytes(run, &states, err);

    *out = (struct link_meter){ 0 };
    if (!rc && parity)
        rc = parity_files_bytes(run, parity, made, err);
    if (rc)
        return rc;
    uint64_t copied = states - (run->mode == RUN_MEM ? image_frozen_bytes(run) : 0);
    out->bytes[from][CLASS_SNAPSHOT][LINK_READ] += copied;
    out->bytes[to][CLASS_SNAPSHOT][LINK_WRITE] += copied;
    out->bytes[to][CLASS_SNAPSHOT][LINK_READ] += states;
    if (kept)
        add_kept(out, states);
    if (!parity)
        return 0;
    out->bytes[to][CLASS_PARITY][LINK_READ] += states + made[LINK_READ];
    out->bytes[to][CLASS_PARITY][LINK_WRITE] += made[LINK_WRITE];
    return 0;
}
