/* fuzz_options.c: the command line, its arguments one a line, and behind a mark a file of options,
 * which --config names. What is accepted gives texts (opt_each) from which the same options come
 * again (opt_set). `plan`, which only computes, goes on to do it. */
#include "tests/fuzz/fuzz.h"

#include "cmd/cmd.h"
#include "cmd/terminal/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, TEXT = 4096, CONFIG = 2 };

static const struct opt_command *const commands[] = {
    &pretrain_command, &finetune_command, &eval_command, &generate_command, &prepare_command,
    &import_command,   &export_command,   &plan_command, &report_command,   &devices_command
};
static const struct opt_command *command;

/* Notices of aliases are of no interest here. */
static void start(void)
{
    stderr = fopen("/dev/null", "w");
    FUZZ_CHECK(stderr);
}

struct again { struct opt_line *line; struct fuzz_out texts; };

/* Only what was on the command line is set: a default may be one that cannot be typed (0 for "not
 * given"). */
static int set_again(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct again *a = ctx;
    struct err    err = { 0 };

    fuzz_add(&a->texts, row->name, strlen(row->name) + 1);
    fuzz_add(&a->texts, text, strlen(text) + 1);
    if (*text && a->line && given && opt_set(a->line, row->name, text, &err))
        fuzz_fail(row->name, 0, err.text);
    return 0;
}

/* Two sets of options are the same if their texts are. */
static void round_trip(const struct opt_line *line)
{
    struct opt_line second = *line;
    struct again    first = { &second, { 0 } }, other = { 0 };
    struct err      err;

    second.options = malloc(command->size);
    FUZZ_CHECK(second.options && !opt_parse(&second, &err));
    opt_each(line, set_again, &first);
    opt_each(&second, set_again, &other);
    FUZZ_CHECK(first.texts.n == other.texts.n &&
               !memcmp(first.texts.p, other.texts.p, other.texts.n));
    free(first.texts.p);
    free(other.texts.p);
    opt_release(&second);
    free(second.options);
}

/* `plan`, told to measure nothing, unless the input speaks of that itself. */
static void plan(const struct opt_line *line)
{
    char *all[MOST + CONFIG + 3];

    if (opt_given(line, "probe"))
        return;
    all[0] = line->argv[0];
    all[1] = (char *)(uintptr_t)"--probe=off";
    memcpy(all + 2, line->argv + 1, (size_t)line->argc * sizeof *line->argv);
    command_run(command, line->argc + 1, all);
}

static int parse(int argc, char **argv)
{
    struct opt_line line = { .cmd = command, .argc = argc, .argv = argv,
                             .options = malloc(command->size) };
    struct err      err = { 0 };
    int             rc;

    FUZZ_CHECK(line.options);
    rc = opt_parse(&line, &err);
    if (!rc) {
        round_trip(&line);
        opt_release(&line);
        if (command == &plan_command)
            plan(&line);
    }
    free(line.options);
    return rc < 0 ? fuzz_refused(rc, &err) : 1;
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in in = { bytes, n }, line;
    char           text[TEXT], *argv[MOST + CONFIG + 1], *save = NULL;
    int            argc = 1;

    command = commands[fuzz_number(&in, 1) % (sizeof commands / sizeof *commands)];
    argv[0] = (char *)(uintptr_t)command->name;
    line = fuzz_part(&in);
    if (in.n) {
        fuzz_put("config", in.p, in.n);
        argv[argc++] = (char *)(uintptr_t)"--config";
        argv[argc++] = (char *)(uintptr_t)fuzz_path("config");
    }
    n = line.n < TEXT ? line.n : TEXT - 1;
    memcpy(text, n ? line.p : bytes, n);
    text[n] = '\0';
    for (char *at = text; at < text + n && argc < MOST + CONFIG; at = save) {
        argv[argc++] = at;
        save = at + strcspn(at, "\n");
        *save++ = '\0';
    }
    argv[argc] = NULL;
    return parse(argc, argv);
}

/* config: NULL: no file of options. */
static void seed_with(unsigned which, const char *text, const char *config)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, which, 1);
    fuzz_add(&out, text, strlen(text));
    if (config) {
        fuzz_add_mark(&out);
        fuzz_add(&out, config, strlen(config));
    }
    fuzz_seed_out(&out);
}

static void seed_of(unsigned which, const char *text)
{
    seed_with(which, text, NULL);
}

/* Every option of every command, once, so that their names are known words. */
static void seed_names(unsigned which)
{
    const struct opt_row *r;
    struct fuzz_out       out = { 0 };

    fuzz_add_number(&out, which, 1);
    for (size_t i = 0; (r = opt_row_at(commands[which], i, NULL)); i++) {
        char line[128];
        int  n = snprintf(line, sizeof line, "--%s\n%s%s", r->name,
                         r->def ? r->def : r->words ? "" : "1", r->type == OPT_FLAG ? "" : "\n");

        fuzz_add(&out, line, (size_t)n);
    }
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    seed_of(0, "--n-layer\n2\n--n-head\n2\n--n-embd=16\n--data\nx.txt\n--host-mem\n400M\n--"
               "device\na\n--device\nb\n--lr\n1e-3\n--warmup\n5%\n--run\nr");
    seed_of(0, "--resume\nrun\n--steps\n10\n--compress\n2%\n--mode\nsu+o+c\n--error-feedback\n--"
               "csd-mem\n1.5G");
    seed_of(1, "--model_name_or_path\ngpt2\n--task_name\nSST-2\n--do_train\n--do_eval\n--max_seq_"
               "length\n128\n--per_device_train_batch_size\n32\n"
               "--learning_rate\n2e-5\n--num_train_epochs\n3.0\n--output_dir\nout\n--warmup_ratio="
               "0.1\n--fp16\nFalse\n--optim\nadamw_torch");
    seed_of(1, "--task\ncola\n--data\nd\n--init\nm\n--lr-scheduler-type\nlinear\n--seed=7\n--"
               "overwrite_output_dir\n--bf16\nTrue");
    seed_of(2, "run\n--data\nx\n--seq\n64");
    seed_of(3, "run\n--prompt\nOnce\n--tokens\n10\n--temperature\n0.8\n--top-k\n5\n--help");
    seed_of(4, "a.txt\n--train-tokenizer\n--vocab\n8192\n--out\ntok");
    seed_of(5, "folder\nrun\n--mode\nmem");
    seed_of(5, "a\n-\n-\n-"); // names that are one byte long
    seed_of(6, "run\nfolder\n--dtype\nbf16\n--\n-x");
    seed_of(7, "--n-layer\n2\n--n-head\n2\n--n-embd\n16\n--vocab\n300\n--host-mem\n64M\n--"
               "devices\n2\n--csd-mem\n1M\n--batch\n2\n--seq\n16\n--optimizer\nsgd");
    seed_of(7, "--model\ngpt2\n--mode\nmem\n--compress=0.02");
    seed_of(8, "run\n--json");
    seed_of(9, "--csv\n--");
    seed_with(0, "--run\nr\n--lr\n1e-3",
              "# a model\nn-layer = 2\nn-head 2 # heads\n--n-embd=16\n\ndevice = a\ndevice = \"b "
              "#\\\"\\\\\"\nquiet\nkeep-best = 0\nlr = 1\n");
    seed_with(1, "--output_dir\nr", "learning_rate = 2e-5\nfp16\ntask = cola\r\ndata = d\n");
    seed_with(7, "--batch\n2",
              "n-layer = 2\nn-head = 2\nn-embd = 16\nvocab = 300\nhost-mem = 64M\nseq = 16\n");
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
        seed_names(i);
}

const struct fuzz_target fuzz_options = {
    "options", start, one, seeds, (size_t)64 << 20, 4096, 2000
};
