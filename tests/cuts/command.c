/* command.c: see command.h. */
#include "tests/cuts/command.h"

#include "cmd/cmd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 96 };

#define COMMAND_ROW(name) &name##_command,
static const struct opt_command *const commands[] = { COMMANDS(COMMAND_ROW) };

static const struct opt_command *find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    abort();
}

int command_do(const char *text, struct err *err)
{
    char           *copy = strdup(text), *rest = copy, *words[WORDS + 1] = { 0 };
    struct opt_line line = { .argv = words };

    assert(copy);
    while ((words[line.argc] = strsep(&rest, " ")))
        assert(line.argc < WORDS), line.argc++;
    line.cmd = find(words[0]);
    line.options = calloc(1, line.cmd->size);
    assert(line.options);
    *err = (struct err){ 0 };
    int rc = opt_parse(&line, err);
    assert(rc <= 0); // no --help
    if (!rc) {
        rc = line.cmd->run(&line, err);
        opt_release(&line);
    }
    free(line.options);
    free(copy);
    return rc;
}
