/* mkxclbin.c: mkxclbin FILE [FLAW KERNEL]: an .xclbin of csd/hls's kernels, without a bitstream:
 * which memory there is, which kernels, where their arguments lie in their registers, which memory
 * they reach. FLAW makes one that is wrong in KERNEL:
 *   without     it is not in it
 *   short       its last argument is missing
 *   scattered   its last argument reaches another memory bank than the others
 *   cut         (of the file, whatever KERNEL is) only the first half of it is there */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xclbin.h>

enum { KERNELS = 2, ARGS = 10, BANKS = 2, SECTIONS = 4 };

static const struct kernel { const char *name, *arg[ARGS + 1]; uint64_t base; } all[KERNELS] = {
    { "sitrain_update", { "command", "w", "m", "v", "grad", "w_out", "m_out", "v_out", "wire",
                          "result" }, 0x1800000 },
    { "sitrain_scatter", { "command", "packed", "dense", "result" }, 0x1810000 },
};

/* What is put into it: a kernel, how many of its arguments, the bank that the last one reaches. */
struct chosen { const struct kernel *kernel; int n_args, last_bank; };

/* struct mem_topology, ip_layout and connectivity, as long as they are here. */
static struct {
    struct chosen kernel[KERNELS];
    int           n;
    struct { int32_t n; struct mem_data bank[BANKS]; }            memory;
    struct { int32_t n; struct ip_data unit[KERNELS]; }           units;
    struct { int32_t n; struct connection wire[KERNELS * ARGS]; } wires;
    char          xml[16384];
} x;

static void put(const char *format, ...)
{
    size_t  at = strlen(x.xml);
    va_list a;

    va_start(a, format);
    vsnprintf(x.xml + at, sizeof x.xml - at, format, a);
    va_end(a);
}

/* A SmartSSD has one DDR bank of 4 GiB; the second is there to be wrong. */
static void make_memory(void)
{
    x.memory.n = BANKS;
    for (unsigned i = 0; i < BANKS; i++) {
        struct mem_data *m = &x.memory.bank[i];

        m->m_type = MEM_DDR4;
        m->m_used = 1;
        m->m_size = 4 << 20; // KiB
        m->m_base_address = 0x4000000000u + ((uint64_t)i << 32);
        snprintf((char *)m->m_tag, sizeof m->m_tag, "bank%u", i);
    }
}

static void make_units(void)
{
    x.units.n = x.n;
    for (int i = 0; i < x.n; i++) {
        const struct chosen *c = &x.kernel[i];
        struct ip_data      *d = &x.units.unit[i];

        d->m_type = IP_KERNEL;
        d->properties = IP_INT_ENABLE_MASK | AP_CTRL_CHAIN << IP_CONTROL_SHIFT;
        d->m_base_address = c->kernel->base;
        snprintf((char *)d->m_name, sizeof d->m_name, "%s:%s_1", c->kernel->name, c->kernel->name);
        for (int k = 0; k < c->n_args; k++)
            x.wires.wire[x.wires.n++] =
                (struct connection){ k, i, k == c->n_args - 1 ? c->last_bank : 0 };
    }
}

static void make_kernel_xml(const struct chosen *c)
{
    put("<kernel name=\"%s\" language=\"c\" type=\"pl\" interrupt=\"true\""
        " hwControlProtocol=\"ap_ctrl_chain\">\n"
        "<port name=\"M_AXI\" mode=\"master\" range=\"0xFFFFFFFFFFFFFFFF\" dataWidth=\"512\""
        " portType=\"addressable\" base=\"0x0\"/>\n"
        "<port name=\"S_AXI_CONTROL\" mode=\"slave\" range=\"0x1000\" dataWidth=\"32\""
        " portType=\"addressable\" base=\"0x0\"/>\n", c->kernel->name);
    for (int i = 0; i < c->n_args; i++)
        put("<arg name=\"%s\" addressQualifier=\"1\" id=\"%d\" port=\"M_AXI\" size=\"0x8\""
            " offset=\"0x%x\" hostOffset=\"0x0\" hostSize=\"0x8\" type=\"void*\"/>\n",
            c->kernel->arg[i], i, 0x10 + 12 * i);
    put("<instance name=\"%s_1\"><addrRemap base=\"0x%llx\" range=\"0x10000\""
        " port=\"S_AXI_CONTROL\"/></instance>\n</kernel>\n",
        c->kernel->name, (unsigned long long)c->kernel->base);
}

static void make_xml(void)
{
    put("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<project name=\"sitrain\">\n"
        "<platform vendor=\"xilinx\" boardid=\"u2\" name=\"gen3x4_xdma_gc\" featureRomTime=\"0\">"
        "<version major=\"2\" minor=\"0\"/>\n"
        "<device name=\"fpga0\" fpgaDevice=\"\" addrWidth=\"0\">\n"
        "<core name=\"OCL_REGION_0\" target=\"bitstream\" type=\"clc_region\""
        " clockFreq=\"0MHz\" numComputeUnits=\"%d\">\n"
        "<kernelClocks><clock port=\"DATA_CLK\" frequency=\"300MHz\"/></kernelClocks>\n", x.n);
    for (int i = 0; i < x.n; i++)
        make_kernel_xml(&x.kernel[i]);
    put("</core></device></platform></project>\n");
}

/* The whole file, in memory of the caller's; *bytes: of it. */
static struct axlf *assemble(size_t *bytes, unsigned char mark)
{
    const struct { enum axlf_section_kind kind; const char *name; const void *data; size_t n; }
    part[SECTIONS] = {
        { MEM_TOPOLOGY, "mem_topology", &x.memory, sizeof x.memory },
        { IP_LAYOUT, "ip_layout", &x.units, sizeof x.units },
        { CONNECTIVITY, "connectivity", &x.wires, sizeof x.wires },
        { EMBEDDED_METADATA, "embedded_metad", x.xml, strlen(x.xml) },
    };
    size_t at = sizeof(struct axlf) + sizeof(struct axlf_section_header) * (SECTIONS - 1);
    struct axlf *a = calloc(1, at + sizeof x + 8 * SECTIONS);

    if (!a)
        return NULL;
    memcpy(a->m_magic, "xclbin2", 8);
    a->m_signature_length = -1;
    memset(a->reserved, 0xff, sizeof a->reserved);
    memset(a->m_keyBlock, 0xff, sizeof a->m_keyBlock);
    a->m_header.m_versionMajor = 2;
    a->m_header.m_mode = XCLBIN_FLAT;
    snprintf((char *)a->m_header.m_platformVBNV, sizeof a->m_header.m_platformVBNV,
             "xilinx_u2_gen3x4_xdma_gc_base_2");
    memset(a->m_header.uuid, mark, sizeof a->m_header.uuid);
    a->m_header.m_numSections = SECTIONS;
    for (int i = 0; i < SECTIONS; i++) {
        at = (at + 7) / 8 * 8;
        a->m_sections[i].m_sectionKind = part[i].kind;
        snprintf(a->m_sections[i].m_sectionName, sizeof a->m_sections[i].m_sectionName, "%s",
                 part[i].name);
        a->m_sections[i].m_sectionOffset = at;
        a->m_sections[i].m_sectionSize = part[i].n;
        memcpy((char *)a + at, part[i].data, part[i].n);
        at += part[i].n;
    }
    a->m_header.m_length = *bytes = at;
    return a;
}

/* 0, or 2 where there is no such flaw or kernel. */
static int choose(const char *flaw, const char *kernel)
{
    int found = strcmp(flaw, "none") == 0 || strcmp(flaw, "cut") == 0;

    for (int i = 0; i < KERNELS; i++) {
        struct chosen c = { .kernel = &all[i] };
        int           here = strcmp(kernel, all[i].name) == 0;

        while (all[i].arg[c.n_args])
            c.n_args++;
        if (here && strcmp(flaw, "short") == 0)
            found = 1, c.n_args--;
        if (here && strcmp(flaw, "scattered") == 0)
            found = 1, c.last_bank = 1;
        if (here && strcmp(flaw, "without") == 0)
            found = 1;
        else
            x.kernel[x.n++] = c;
    }
    return found ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *flaw = argc == 4 ? argv[2] : "none", *kernel = argc == 4 ? argv[3] : "";
    size_t      bytes;

    if ((argc != 2 && argc != 4) || choose(flaw, kernel)) {
        fprintf(stderr, "mkxclbin FILE [without|short|scattered|cut KERNEL]\n");
        return 2;
    }
    make_memory();
    make_units();
    make_xml();
    // another id for each that is another
    struct axlf *a = assemble(&bytes, (unsigned char)(flaw[0] ^ kernel[strlen(kernel) / 2]));
    if (!a)
        return 1;
    if (strcmp(flaw, "cut") == 0)
        bytes /= 2;
    FILE *f = fopen(argv[1], "wb");
    int   bad = !f || fwrite(a, 1, bytes, f) != bytes;
    if (f)
        bad |= fclose(f) != 0;
    free(a);
    if (bad)
        perror(argv[1]);
    return bad;
}
