/* image.c: the sections of an .xclbin, as libxrt reads them too: those of groups are preferred, and
 * units are numbered by interrupt where they have one, else by address. */
#include "tests/smartssd/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *section(const struct axlf *a, enum axlf_section_kind kind, size_t *bytes)
{
    for (uint32_t i = 0; i < a->m_header.m_numSections; i++) {
        const struct axlf_section_header *h = &a->m_sections[i];

        if (h->m_sectionKind == kind && h->m_sectionOffset + h->m_sectionSize <=
                                            a->m_header.m_length) {
            *bytes = h->m_sectionSize;
            return (const char *)a + h->m_sectionOffset;
        }
    }
    return NULL;
}

static int read_banks(struct image *to, const struct mem_topology *m)
{
    if (!m || m->m_count < 1 || m->m_count > IMAGE_BANKS)
        return -EINVAL;
    to->n_banks = m->m_count;
    for (int i = 0; i < m->m_count; i++) {
        to->bank_base[i] = m->m_mem_data[i].m_base_address;
        to->bank_bytes[i] = m->m_mem_data[i].m_used ? m->m_mem_data[i].m_size * 1024 : 0;
    }
    return 0;
}

/* The registers of a kernel's arguments: <arg .. offset="0x10" ..>, in order. */
static void read_args(struct unit *u, const char *xml)
{
    char        begin[96];
    const char *at, *end;

    snprintf(begin, sizeof begin, "<kernel name=\"%s\"", u->kernel);
    at = strstr(xml, begin);
    end = at ? strstr(at, "</kernel>") : NULL;
    while (end && (at = strstr(at + 1, "<arg ")) && at < end && u->n_args < IMAGE_ARGS) {
        const char *offset = strstr(at, " offset=\"");

        if (offset && offset < end)
            u->offset[u->n_args++] = (int)strtol(offset + strlen(" offset=\""), NULL, 16);
    }
}

static int by_order(const void *a, const void *b)
{
    uint64_t x = ((const struct unit *)a)->order, y = ((const struct unit *)b)->order;

    return (x > y) - (x < y);
}

static int read_units(struct image *to, const struct ip_layout *ip, const struct connectivity *c,
                      const char *xml)
{
    uint32_t interrupts = 0;

    if (!ip || !c)
        return -EINVAL;
    for (int i = 0; i < ip->m_count; i++)
        interrupts |= ip->m_ip_data[i].properties & IP_INTERRUPT_ID_MASK;
    for (int i = 0; i < ip->m_count; i++) {
        const struct ip_data *d = &ip->m_ip_data[i];
        struct unit          *u = &to->unit[to->n_units];

        if (d->m_type != IP_KERNEL)
            continue;
        if (++to->n_units > IMAGE_UNITS - 1)
            return -EINVAL;
        u->order = interrupts ? d->properties & IP_INTERRUPT_ID_MASK : d->m_base_address;
        snprintf(u->kernel, sizeof u->kernel, "%.*s",
                 (int)strcspn((const char *)d->m_name, ":"), (const char *)d->m_name);
        read_args(u, xml);
        for (int k = 0; k < c->m_count; k++) {
            const struct connection *w = &c->m_connection[k];

            if (w->m_ip_layout_index == i && w->arg_index >= 0 && w->arg_index < IMAGE_ARGS &&
                w->mem_data_index >= 0 && w->mem_data_index < to->n_banks)
                u->banks[w->arg_index] |= 1u << w->mem_data_index;
        }
    }
    qsort(to->unit, (size_t)to->n_units, sizeof to->unit[0], by_order);
    return 0;
}

int image_read(struct image *to, const struct axlf *from)
{
    size_t      bytes;
    const void *banks = section(from, ASK_GROUP_TOPOLOGY, &bytes),
               *wires = section(from, ASK_GROUP_CONNECTIVITY, &bytes),
               *units = section(from, IP_LAYOUT, &bytes),
               *meta = section(from, EMBEDDED_METADATA, &bytes);

    if (!meta)
        return -EINVAL;
    char *xml = strndup(meta, bytes);
    if (!xml)
        return -ENOMEM;
    *to = (struct image){ 0 };
    memcpy(to->id, from->m_header.uuid, sizeof to->id);
    int rc = read_banks(to, banks ? banks : section(from, MEM_TOPOLOGY, &bytes));
    if (!rc)
        rc = read_units(to, units, wires ? wires : section(from, CONNECTIVITY, &bytes), xml);
    free(xml);
    return rc;
}
