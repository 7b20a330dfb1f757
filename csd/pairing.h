/* pairing.h: which accelerator card belongs to which NVMe drive. The card's runtime does not say
 * it. Only /sys shows that the two parts of a computational storage device stand behind one PCIe
 * switch. Nothing but files of /sys is read. */
#pragma once

#include "data/base/err.h"

enum { PCI_ADDRESS = 24, CARD_MODEL = 64, CARD_UUID = 40 }; // bytes of a text, as 0000:3b:00.1

/* Can the drive reach the card's memory (peer-to-peer)? As the driver's subdevice "p2p" says, which
 * is how XRT 2.13 reads it. P2P_REBOOT: enabled, but the memory window needs a warm reboot. */
enum card_p2p { CARD_NO_DRIVER, P2P_UNKNOWN, P2P_OFF, P2P_REBOOT, P2P_ON };

/* A card's user function: one that is bound to XRT's driver xocl, or a SmartSSD's without a driver.
 */
struct card {
    char          address[PCI_ADDRESS];
    char          model[CARD_MODEL]; // its platform, or ""
    char          xclbin[CARD_UUID]; // of the loaded logic; "": none, or unknown
    enum card_p2p p2p;
    char         *place; // its path of PCI functions in /sys
};

/* An NVMe namespace. card: the index of its card in pairing.cards, or -1. */
struct drive {
    char  name[32], address[PCI_ADDRESS];
    int   card;
    char *place;
};

struct pairing {
    char         *sys;
    struct card  *cards;
    struct drive *drives;
    size_t        n_cards, n_drives, cards_room, drives_room;
};

/* Find cards, in the order of their addresses, and drives, in the order of their names. sys:
 * "/sys", or a tree like it. 0 or -errno. The caller releases *p, also after a failure. */
int  pairing_read(struct pairing *p, const char *sys, struct err *err);
void pairing_release(struct pairing *p); // accepts the zero state

/* The card of the drive that `path` is or lies on: a block device, a file, a folder, or a file that
 * is still to be made. A card belongs to a drive if both stand behind a common switch, no other
 * card is as near to the drive, and no other drive is nearer to the card. *card is p's. -ENODEV and
 * a sentence if there is no such card, or more than one. */
int pairing_card(const struct pairing *p, const char *path, const struct card **card,
                 struct err *err);

/* The state in some words, with what the user must do if it is not P2P_ON. */
void card_p2p_words(const struct card *c, char *buf, size_t size);
