/* terminal.c: takes over the terminal, draws pages, and reads keys and signals. Signals come
 * through a descriptor (signalfd) and are read like keys. */
#include "cmd/terminal/terminal.h"

#include "data/base/clock.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

struct terminal {
    struct termios before;
    int            keys;    // stdin is a terminal; `before`: its settings
    int            signals; // a descriptor
    sigset_t       caught, mask; // mask: the one before
};

static const char enter[] = "\033[?1049h\033[?25l", leave[] = "\033[?25h\033[?1049l";

static int write_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t put = write(STDOUT_FILENO, text, n);

        if (put < 0 && errno != EINTR)
            return -errno;
        text += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static void screen_take(struct terminal *t)
{
    struct termios now = t->before;

    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO); // Ctrl-C and Ctrl-Z stay signals
    if (t->keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
    write_all(enter, sizeof enter - 1);
}

static void screen_give(struct terminal *t)
{
    write_all(leave, sizeof leave - 1);
    if (t->keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
}

int terminal_draws(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb");
}

int terminal_colors(void)
{
    const char *plain = getenv("NO_COLOR");

    return terminal_draws() && !(plain && *plain);
}

int terminal_open(struct terminal **out, struct err *err)
{
    struct terminal *t = *out = calloc(1, sizeof *t);
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };

    if (!t)
        return err_set(err, -ENOMEM, "no memory for a terminal");
    sigemptyset(&t->caught);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&t->caught, signals[i]);
    sigprocmask(SIG_BLOCK, &t->caught, &t->mask);
    t->signals = signalfd(-1, &t->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (t->signals < 0) {
        int rc = err_set(err, -errno, "signalfd: %s", strerror(errno));

        sigprocmask(SIG_SETMASK, &t->mask, NULL);
        free(t);
        *out = NULL;
        return rc;
    }
    t->keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &t->before);
    screen_take(t);
    return 0;
}

void terminal_close(struct terminal *t)
{
    if (!t)
        return;
    screen_give(t);
    close(t->signals);
    sigprocmask(SIG_SETMASK, &t->mask, NULL);
    free(t);
}

void terminal_size(size_t *columns, size_t *rows)
{
    struct winsize w = { 0 };

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    *columns = w.ws_col ? w.ws_col : 80;
    *rows = w.ws_row ? w.ws_row : 24;
}

int terminal_draw(struct terminal *t, const char *text, struct err *err)
{
    char  *all = NULL;
    size_t size = 0;
    FILE  *f = open_memstream(&all, &size); // one write, so that no half page is seen

    (void)t;
    if (!f)
        return err_set(err, -ENOMEM, "no memory for a page");
    fputs("\033[H", f);
    for (; *text; text++)
        fputs(*text == '\n' ? "\033[K\r\n" : (char[]){ *text, '\0' }, f);
    fputs("\033[J", f);
    int rc = fclose(f) ? -ENOMEM : write_all(all, size);
    free(all);
    return rc ? err_set(err, rc, "writing to the terminal: %s", strerror(-rc)) : 0;
}

/* Stops at Ctrl-Z like any program, and gives the screen to the shell in between. The kernel does
 * not stop a process that no shell could continue. */
static void stop_here(struct terminal *t)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    screen_give(t);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); // it stops here
    sigprocmask(SIG_BLOCK, &stop, NULL);
    screen_take(t);
}

/* Reads a signal. 0: it does not matter. */
static int signal_read(struct terminal *t, enum terminal_event *what)
{
    struct signalfd_siginfo s;

    if (read(t->signals, &s, sizeof s) != sizeof s)
        return 0;
    if (s.ssi_signo == SIGTSTP)
        stop_here(t);
    *what = s.ssi_signo == SIGTSTP || s.ssi_signo == SIGWINCH ? TERMINAL_RESIZED : TERMINAL_END;
    return 1;
}

static int key_read(enum terminal_event *what)
{
    char    c = 0;
    ssize_t n = read(STDIN_FILENO, &c, 1);

    *what = TERMINAL_END;
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ||
           (n == 1 && (c == 'q' || c == 'Q' || c == 4)); // Ctrl-D
}

enum terminal_event terminal_wait(struct terminal *t, double seconds)
{
    uint64_t            until = clock_ns() + (uint64_t)(seconds * 1e9);
    enum terminal_event what;

    for (;;) {
        uint64_t      now = clock_ns();
        struct pollfd of[] = { { .fd = t->signals, .events = POLLIN },
                               { .fd = t->keys ? STDIN_FILENO : -1, .events = POLLIN } };

        if (now >= until)
            return TERMINAL_TIME;
        poll(of, 2, (int)((until - now) / 1000000) + 1);
        if ((of[0].revents && signal_read(t, &what)) || (of[1].revents && key_read(&what)))
            return what;
    }
}
