/* arch_list.c: lists the families, and finds them and their presets by name. */
#include "model/arch/arch.h"

#define ROW(name) &name##_arch,
static const struct arch *const families[] = { ARCH_FAMILIES(ROW) };
#undef ROW
enum { FAMILIES = sizeof families / sizeof *families };

const struct arch *arch_at(size_t i) { return i < FAMILIES ? families[i] : NULL; }

const struct arch *arch_named(const char *name)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (!strcmp(name, families[i]->name))
            return families[i];
    return NULL;
}

static const struct arch_preset *preset_at(size_t i, const struct arch **of)
{
    for (size_t f = 0; f < FAMILIES; i -= families[f++]->n_presets)
        if (i < families[f]->n_presets) {
            *of = families[f];
            return &families[f]->presets[i];
        }
    return NULL;
}

const char *arch_preset_name(size_t i)
{
    const struct arch        *of;
    const struct arch_preset *preset = preset_at(i, &of);

    return preset ? preset->name : NULL;
}

int arch_preset(struct model_config *g, const char *name)
{
    const struct arch        *of;
    const struct arch_preset *preset;

    for (size_t i = 0; (preset = preset_at(i, &of)); i++)
        if (!strcmp(name, preset->name)) {
            *g = arch_config(of, preset->sizes);
            return 0;
        }
    return -1;
}
