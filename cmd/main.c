/* main.c: starts the program: prepares libraries and streams, answers --help and the like, and
 * calls the command that was named. */
#include "cmd/cmd.h"
#include "cmd/terminal/command.h"
#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/stop.h"
#include "data/base/version.h"
#include "data/db/db_wait.h"
#include "kernels/product/matmul.h"
#include "run/folder/machine_rows.h"

#include <fcntl.h>
#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define COMMAND_ROW(name) &name##_command,
static const struct opt_command *const commands[] = { COMMANDS(COMMAND_ROW) };
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out)
{
    fputs("siTrain trains GPT models that do not fit in memory: parameters, gradients and\n"
          "optimizer states live on NVMe drives, layers stream through a fixed amount of\n"
          "memory, and the drives' own accelerators (or emulated ones) do the update.\n\n"
          "Usage: siTrain COMMAND ...\n\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nOptions of a command: siTrain help COMMAND; all of them: siTrain help COMMAND all.\n"
          "Manual page: siTrain --man | man -l -\n"
          "Completion in bash: . <(siTrain --completion); in zsh and fish: --completion zsh,\n"
          "--completion fish. Version: siTrain --version.\n"
          "Sizes take K, M, G and T, powers of 1024; 4GB and 4GiB are 4G.\n"
          "Exit code: 0 done, 1 failed, 2 misuse, 130 interrupted after a clean stop.\n", out);
}

/* A first hour, in its order. tests/cli/examples.sh runs each. */
static const struct example { const char *what, *line; } examples[] = {
    { "A tokenizer of one's own, from a text:",
      "siTrain prepare my.txt --train-tokenizer --vocab 8192 --out tok" },
    { "What a run would hold, move and take, before it is made:",
      "siTrain plan --n-layer 8 --n-head 8 --n-embd 512 --seq 256 --data my.txt --tokenizer tok "
      "--devices 2 --host-mem 400M --steps 1000" },
    { "The run, its states on two emulated devices; Ctrl-C stops it after a step:",
      "siTrain pretrain --n-layer 8 --n-head 8 --n-embd 512 --seq 256 --data my.txt --tokenizer "
      "tok --devices 2 --host-mem 400M --steps 1000 --run first" },
    { "How far it is, in another terminal:", "siTrain watch first" },
    { "On with it, to a later end:",
      "siTrain pretrain --resume first --steps 1500 --schedule-steps 1500" },
    { "Where the time went; and the options, to make it again:",
      "siTrain report first\nsiTrain report first --config >first.conf\n"
      "siTrain pretrain --config first.conf --run second" },
    { "What it writes, and a conversation:",
      "siTrain generate first --prompt \"Once upon a time\" --tokens 100 --temperature 0.8\n"
      "siTrain generate first --chat" },
    { "For Hugging Face's transformers:", "siTrain export first first-hf" },
    { "A classifier from it, of rows with the columns sentence and label:",
      "siTrain finetune --init first --train-file mine.csv --eval-file mine-dev.csv --epochs 3 "
      "--run mine\nsiTrain eval mine --eval-file mine-dev.csv" },
    { "Every byte of a run read and checked:", "siTrain check first" },
};

static void print_man(FILE *out)
{
    fputs(".TH SITRAIN 1 \"\" \"siTrain " SITRAIN_VERSION "\"\n"
          ".SH NAME\nsiTrain \\- train GPT models that do not fit in memory\n"
          ".SH SYNOPSIS\n.B siTrain\n.I COMMAND\n.RI [ options ]\n.SH DESCRIPTION\n"
          "Parameters, gradients and optimizer states live on NVMe drives; layers stream through a "
          "fixed amount of memory; the\n"
          "optimizer update runs on computational storage devices, emulated ones where there are "
          "none.\n"
          "Sizes take K, M, G and T (powers of 1024; 4GB and 4GiB are 4G); ratios take "
          "%.\n.SH COMMANDS\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        opt_man(commands[i], out);
    fputs(".SH EXAMPLES\n", out);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        opt_man_line(out, ".PP\n", examples[i].what);
        opt_man_line(out, ".RS 4\n.nf\n", examples[i].line);
        fputs(".fi\n.RE\n", out);
    }
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 misuse, 130 interrupted after a clean stop.\n"
          ".SH FILES\n.TP\n.I RUN/run.db\nthe run's journal and measurements, a SQLite database\n",
          out);
}

/* Prints the script of a shell, or with words what the script asks for. */
static int print_completion(const char *shell, char *const *words, size_t n)
{
    struct err err = { 0 };
    int        number = opt_words_find(opt_shells, shell, strlen(shell));

    if (number < 0) {
        opt_words_refuse("completion", shell, opt_shells, &err);
        fprintf(stderr, "siTrain: %s\n", err.text);
        return 2;
    }
    if (n)
        opt_complete(commands, N_COMMANDS, words, n, stdout);
    else
        fputs(opt_completion(number), stdout);
    return command_finish(0);
}

static int run_command(int argc, char **argv)
{
    char        names[256], all[256];
    size_t      n = 0, m = 0;

    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (!strcmp(argv[0], commands[i]->name))
            return command_run(commands[i], argc, argv);
        n += (size_t)snprintf(names + n, sizeof names - n, "%s ", commands[i]->name);
        m += (size_t)snprintf(all + m, sizeof all - m, "%s%s", i ? ", " : "", commands[i]->name);
    }
    const char *near = opt_nearest(argv[0], names);
    if (near)
        say_line(stderr, "siTrain: there is no command %s; did you mean %s?", argv[0], near);
    else
        say_line(stderr, "siTrain: there is no command %s; the commands are %s", argv[0], all);
    return 2;
}

/* Makes OpenMP's waiting threads spin briefly and then sleep. The devices' workers and other
 * programs share these cores, and a spinning thread keeps the one that it waits for from running.
 * But waking a thread takes 0.1 ms, and a step has hundreds of short loops. So threads spin for
 * about that long, then sleep (both measured in docs/lab/performance.md). 1: set now. */
static int wait_without_spinning(void)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return 0;
    return !setenv("OMP_WAIT_POLICY", "passive", 1) && !setenv("GOMP_SPINCOUNT", "5000", 1);
}

static void take_all_places(void)
{
    enum { MOST = 1 << 16 }; // processors
    cpu_set_t *all = CPU_ALLOC(MOST);
    int       *ids = malloc(MOST * sizeof *ids), n;

    if (all)
        CPU_ZERO_S(CPU_ALLOC_SIZE(MOST), all);
    for (int place = 0; all && ids && place < omp_get_num_places(); place++)
        if ((n = omp_get_place_num_procs(place)) <= MOST) {
            omp_get_place_proc_ids(place, ids);
            while (n-- > 0)
                CPU_SET_S((size_t)ids[n], CPU_ALLOC_SIZE(MOST), all);
        }
    if (all && ids)
        sched_setaffinity(0, CPU_ALLOC_SIZE(MOST), all); // if that fails, only speed is lost
    free(ids);
    CPU_FREE(all);
}

/* If OMP_PROC_BIND or OMP_PLACES is set, OpenMP binds the thread that starts the program to one
 * processor. The devices' workers, and the program that this one executes, would inherit that
 * processor and share it. So siTrain leaves its threads to the kernel. 1: set now. */
static int compute_unbound(void)
{
    const char *bind = getenv("OMP_PROC_BIND");

    if (omp_get_proc_bind() == omp_proc_bind_false || (bind && !strcmp(bind, "false")))
        return 0;
    fprintf(stderr, "siTrain: OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY do not bind "
            "siTrain's threads: to limit its processors, start it with taskset or numactl\n");
    take_all_places();
    return !setenv("OMP_PROC_BIND", "false", 1) && !unsetenv("OMP_PLACES") &&
           !unsetenv("GOMP_CPU_AFFINITY");
}

/* Libraries read their settings when they are loaded, so the program executes itself with better
 * ones. What the user has set stays, unless it binds threads. */
static void set_libraries(char **argv)
{
    char        self[PATH_MAX];
    const char *core = getenv("OPENBLAS_CORETYPE") ? NULL : matmul_better_core(NULL);
    int         set = wait_without_spinning();

    set |= compute_unbound();
    set |= core && !setenv("OPENBLAS_CORETYPE", core, 1);
    if (set && realpath("/proc/self/exe", self))
        execv(self, argv); // if that fails, only speed is lost
}

/* Limits the CPU time for loading libraries. Loading OpenBLAS maps its buffers, and tries forever
 * if ulimit -v or -d leaves no room for them. So if such a limit is set, loading may take LOADING_S
 * seconds of CPU time, a hundred times what it needs. The limit is set before any library begins;
 * main takes it back. */
enum { LOADING_S = 3 };

static void loading_ends(int sig)
{
    static const char text[] =
        "siTrain: ulimit -v or -d leaves no room for the buffers of OpenBLAS, 128 MiB and more for "
        "each thread: raise it (ulimit -v unlimited; ulimit -d unlimited)\n";

    (void)sig;
    ssize_t said = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(said > 0 ? 1 : 1);
}

static void loading_begins(void)
{
    struct rlimit all = { .rlim_cur = RLIM_INFINITY }, data = all;

    if (getrlimit(RLIMIT_AS, &all) || getrlimit(RLIMIT_DATA, &data) ||
        (all.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY))
        return;
    sigaction(SIGPROF, &(struct sigaction){ .sa_handler = loading_ends }, NULL);
    setitimer(ITIMER_PROF, &(struct itimerval){ .it_value.tv_sec = LOADING_S }, NULL);
}

__attribute__((section(".preinit_array"), used))
static void (*const before_libraries)(void) = loading_begins;

/* Whether the stack is large enough (ulimit -s): the kernel kills a program that needs more. */
static int has_stack(void)
{
    enum { LEAST = 256 << 10 };
    struct rlimit stack;

    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur >= LEAST)
        return 1;
    fprintf(stderr, "siTrain: ulimit -s leaves a stack of %llu bytes, and %d are needed: raise it "
            "(ulimit -s 8192)\n", (unsigned long long)stack.rlim_cur, LEAST);
    return 0;
}

/* Whether OMP_NUM_THREADS is a number of threads that can be: libgomp would not say a sentence. */
static int has_threads(void)
{
    int n = omp_get_max_threads();

    if (n <= OPT_THREADS_MOST)
        return 1;
    fprintf(stderr, "siTrain: OMP_NUM_THREADS asks for %d threads: expected %d at most\n", n,
            OPT_THREADS_MOST);
    return 0;
}

/* Opens closed standard streams. Otherwise the next opened file would get the number of one, and a
 * printed line would go into a run's database. The replacement refuses what the stream is for. */
static void take_closed_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            return;
}

/* A page of a mapped file that has no room on the disk: SQLite maps run.db-shm, and there is no
 * error that it could be told. What is committed stays, as after a kill. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    static const char text[] =
        "siTrain: a page of run.db-shm could not be written: the disk is full or fails, or another "
        "program cut the file; free some space and run it again; a run that was made goes on with "
        "--resume\n";

    (void)context;
    if (info->si_code == BUS_ADRERR && write(STDERR_FILENO, text, sizeof text - 1) >= 0)
        _exit(1);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Says that another program has locked a run's database. A bar may be drawn on the terminal.
 * progress.c is not asked, because this may be a worker's thread. */
static int say_waiting(void *ctx, const char *sentence)
{
    if (sentence) {
        fputs(job_terminal(STDERR_FILENO) ? "\r\033[K" : "", stderr);
        say_line(stderr, "siTrain: %s", sentence);
    }
    return stop_asked(ctx);
}

int main(int argc, char **argv)
{
    static const struct db_wait_rule waiting = { .notice_ms = 1500,
                                                .limit_ms = 600000,
                                                .say = say_waiting };

    setitimer(ITIMER_PROF, &(struct itimerval){ 0 }, NULL); // loading is over
    signal(SIGPROF, SIG_DFL);
    take_closed_streams();
    db_wait_set(&waiting);
    // If a reader goes away, writing fails (command.c), and training stops (training.c). A file
    // over the limit (ulimit -f) is an error with a sentence, not a kill.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS, &(struct sigaction){ .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO }, NULL);
    set_libraries(argv);

    if (!has_stack())
        return 1;
    if (!has_threads())
        return 2;
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "help") && argc > 2)
        return command_finish(run_command(
            argc > 3 ? 3 : 2, (char *[]){ argv[2], (char[]){ "--help" }, argv[3], NULL }));
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        print_help(stdout);
    else if (!strcmp(argv[1], "--version"))
        puts("siTrain " SITRAIN_VERSION);
    else if (!strcmp(argv[1], "--man"))
        print_man(stdout);
    else if (!strcmp(argv[1], "--completion"))
        return print_completion(argc > 2 ? argv[2] : "bash", argv + 3,
                                argc > 3 ? (size_t)argc - 3 : 0);
    else
        return command_finish(run_command(argc - 1, argv + 1));
    return command_finish(0);
}
