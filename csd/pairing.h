/* pairing.h: which accelerator card belongs to which NVMe drive. The card's runtime does not say:
 * that the two of one computational storage device stand behind one PCIe switch shows in /sys
 * alone. Nothing is opened or asked but files of /sys. */
#pragma once

#include "data/base/err.h"

enum { PCI_ADDRESS = 24, CARD_MODEL = 64, CARD_UUID = 40 }; // bytes of a text, as 0000:3b:00.1

/* Whether the drive can reach the card's memory: what the driver's subdevice "p2p" says, as XRT
 * 2.13 reads it. P2P_REBOOT: asked for, but the memory window comes with the next warm reboot. */
enum card_p2p { CARD_NO_DRIVER, P2P_UNKNOWN, P2P_OFF, P2P_REBOOT, P2P_ON };

/* A card's user function: bound to XRT's driver xocl, or a SmartSSD's without any driver. */
struct card {
    char          address[PCI_ADDRESS];
    char          model[CARD_MODEL]; // the platform that is on it, or ""
    char          xclbin[CARD_UUID]; // of the logic that is loaded; "" where none is, or unknown
    enum card_p2p p2p;
    char         *place; // its path of PCI functions
};

/* An NVMe namespace. card: the index of the card that it belongs to, or -1. */
struct drive {
    char  name[32], address[PCI_ADDRESS];
    int   card;
    char *place;
};

struct pairing {
    char         *sys;
    struct card  *cards;
    struct drive *drives;
    size_t        n_cards, n_drives;
};

/* Look at what there is; sys: "/sys", or a tree that looks like it. Cards in the order of their
 * addresses, drives in that of their names. The caller releases *p, also after a failure. */
int  pairing_read(struct pairing *p, const char *sys, struct err *err);
void pairing_release(struct pairing *p); // accepts the zero state

/* The card of the drive that `path` is or lies on: a block device, a file, a folder, or a file that
 * is still to be made in one. A card belongs to a drive where both stand behind a common switch, no
 * other card is as near to the drive, and no other drive nearer to the card. -ENODEV and a sentence
 * where there is none, or more than one. *card is p's. */
int pairing_card(const struct pairing *p, const char *path, const struct card **card,
                 struct err *err);

/* Some words, and what must be done where it is not P2P_ON. */
void card_p2p_words(const struct card *c, char *buf, size_t size);
